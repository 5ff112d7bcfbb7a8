//! Prompts that change on the way, in A1111's notation.
//!
//! | written | means |
//! | --- | --- |
//! | `[from:to:when]` | `from` for the first `when` steps, then `to` |
//! | `[to:when]` | nothing, then `to` |
//! | `[from::when]` | `from`, then nothing |
//! | `[a\|b]`, `[a\|b\|c]` | one after the other, a new one each step; any may be empty |
//!
//! `when` is a number of steps, or with a decimal point a share of them below 1 (rounded down). Constructs nest; round
//! brackets inside belong together, so that the colon of `(a:1.2)` separates nothing. Anything else in square brackets
//! stays as it is and is a weight. This is what A1111's `prompt_parser.py` does (with its rule since version 1.6 that
//! the decimal point decides), except that a step that is never reached is an error here.

mod error;
#[cfg(test)]
mod tests;

pub use error::ScheduleError;

/// A prompt that holds from some step on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The first step with it, from 0.
    pub first_step: usize,
    /// The prompt, in which nothing is scheduled any more.
    pub text: String,
}

/// How deep square brackets may nest.
pub const MAX_DEPTH: usize = 32;

/// A piece of a prompt with a schedule.
#[derive(Debug)]
enum Node<'a> {
    Text(&'a str),
    /// Square brackets that schedule nothing.
    Brackets(Vec<Node<'a>>),
    /// The first until step `when`, then the second.
    Change(Vec<Node<'a>>, Vec<Node<'a>>, usize),
    Alternate(Vec<Vec<Node<'a>>>),
}

/// The prompts of a run of `steps` steps, with the step at which each begins; the first begins at 0. A prompt that
/// schedules nothing is one segment.
pub fn segments(prompt: &str, steps: usize) -> Result<Vec<Segment>, ScheduleError> {
    let closing = closing_brackets(prompt);
    let parser = Parser {
        prompt,
        closing: &closing,
        pass: Pass::Only,
        steps,
    };
    Ok(segments_of(&parser.nodes(0, prompt.len(), 0)?, steps))
}

fn segments_of(nodes: &[Node], steps: usize) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for first_step in changes(nodes, steps) {
        let mut text = String::new();
        write(nodes, first_step, &mut text);
        if segments.last().is_none_or(|before| before.text != text) {
            segments.push(Segment { first_step, text });
        }
    }
    segments
}

/// What a first pass of `steps` steps has of a prompt that is counted on through a second one of `second` steps: what changes after
/// its end does not change in it, as in A1111's web UI. Whole numbers count the steps of both, shares from 1 to 2 are those of the
/// second pass. A prompt that changes within the first pass alone is returned as written.
///
/// # Errors
/// As [`segments`], for changes after the end of both. Or what is left cannot be written down.
pub fn first_pass(prompt: &str, steps: usize, second: usize) -> Result<String, ScheduleError> {
    match segments(prompt, steps).is_ok() {
        true => Ok(prompt.to_owned()),
        false => rewritten(prompt, Pass::First { second }, steps),
    }
}

/// What is left of a prompt for a second pass of `steps` steps, over the picture that a first one of `first` steps has made: as
/// written it is counted through both passes, as returned from the second one's first step. Whole numbers go on after the
/// first pass's steps, shares from 1 to 2 are those of the second pass, and what alternates begins anew. So A1111's web UI does
/// in its "hires fix", with the same prompt or another one, since version 1.6.
///
/// # Errors
/// As [`segments`]; what changes in the first pass or at its end has changed. Or what is left cannot be written down.
pub fn second_pass(prompt: &str, first: usize, steps: usize) -> Result<String, ScheduleError> {
    rewritten(prompt, Pass::Second { first }, steps)
}

/// The prompt of one of two passes, which has `steps` steps, as a prompt of its own.
fn rewritten(prompt: &str, pass: Pass, steps: usize) -> Result<String, ScheduleError> {
    let closing = closing_brackets(prompt);
    let parser = Parser {
        prompt,
        closing: &closing,
        pass,
        steps,
    };
    let nodes = parser.nodes(0, prompt.len(), 0)?;
    let mut left = String::new();
    write_rest(&nodes, &mut left);
    // Next to what stood beside a change its words may look like another one: "[a:[b:0:3].5]" leaves "[a:0.5]".
    match segments(&left, steps) {
        Ok(found) if found == segments_of(&nodes, steps) => Ok(left),
        _ => Err(ScheduleError::Joined(left.chars().take(80).collect())),
    }
}

/// One after the other: each of `prompts` from its step on, which may be scheduled itself, counted from the run's first
/// step. The first begins at 0, and the steps ascend; a prompt whose step is past the last is not reached.
pub fn sequence(prompts: &[(usize, &str)], steps: usize) -> Result<Vec<Segment>, ScheduleError> {
    let mut all: Vec<Segment> = Vec::new();
    for (i, (first, prompt)) in prompts.iter().enumerate() {
        let end = prompts.get(i + 1).map_or(steps, |next| next.0).min(steps);
        let own = segments(prompt, steps)?;
        for (j, segment) in own.iter().enumerate() {
            let own_end = own.get(j + 1).map_or(steps, |next| next.first_step);
            let first_step = segment.first_step.max(*first);
            if first_step < own_end.min(end)
                && all.last().is_none_or(|before| before.text != segment.text)
            {
                all.push(Segment {
                    first_step,
                    text: segment.text.clone(),
                });
            }
        }
    }
    Ok(all)
}

/// Whose steps a prompt is read for.
#[derive(Clone, Copy)]
enum Pass {
    /// There is one pass.
    Only,
    /// The first of two, of which the second has so many steps.
    First { second: usize },
    /// The second of two, of which the first has so many steps.
    Second { first: usize },
}

struct Parser<'a> {
    prompt: &'a str,
    /// For each byte with a square bracket that is closed, where.
    closing: &'a [(usize, usize)],
    pass: Pass,
    /// Of the pass.
    steps: usize,
}

impl<'a> Parser<'a> {
    /// What stands between two bytes.
    fn nodes(
        &self,
        start: usize,
        end: usize,
        depth: usize,
    ) -> Result<Vec<Node<'a>>, ScheduleError> {
        if depth > MAX_DEPTH {
            return Err(ScheduleError::TooDeep);
        }
        let mut nodes = Vec::new();
        let mut text = start;
        let mut at = start;
        while at < end {
            match self.closed(at) {
                Some(close) if close < end => {
                    nodes.push(Node::Text(&self.prompt[text..at]));
                    nodes.push(self.brackets(at, close, depth)?);
                    at = close + 1;
                    text = at;
                }
                _ => at += 1,
            }
        }
        nodes.push(Node::Text(&self.prompt[text..end]));
        Ok(nodes)
    }

    fn closed(&self, at: usize) -> Option<usize> {
        let found = self.closing.binary_search_by_key(&at, |pair| pair.0);
        found.ok().map(|i| self.closing[i].1)
    }

    /// The brackets from byte `open` to byte `close`.
    fn brackets(&self, open: usize, close: usize, depth: usize) -> Result<Node<'a>, ScheduleError> {
        let (colons, bars) = self.separators(open, close);
        let nodes = |from: usize, to: usize| self.nodes(from, to, depth + 1);
        if colons.is_empty() && !bars.is_empty() {
            let starts = [open].into_iter().chain(bars.iter().copied());
            let ends = bars.iter().copied().chain([close]);
            let choices = starts.zip(ends).map(|(from, to)| nodes(from + 1, to));
            return Ok(Node::Alternate(choices.collect::<Result<_, _>>()?));
        }
        if let ([.., last], true) = (&colons[..], bars.is_empty() && colons.len() <= 2) {
            let when = self.prompt[last + 1..close].trim();
            // `.5` and `+3` are numbers in A1111's grammar too; `inf` is none.
            let numeric = when.contains(|c: char| c.is_ascii_digit())
                && !when.contains(|c: char| c.is_alphabetic());
            if let Some(number) = when.parse::<f64>().ok().filter(|_| numeric) {
                let Some(step) = self.step(number, when.contains('.')) else {
                    let construct = self.prompt[open..=close].chars().take(80).collect();
                    return Err(self.late(construct, when.to_owned()));
                };
                let before = if colons.len() == 2 {
                    nodes(open + 1, colons[0])?
                } else {
                    vec![]
                };
                let after = nodes(if colons.len() == 2 { colons[0] } else { open } + 1, *last)?;
                return Ok(match step < self.steps {
                    true => Node::Change(before, after, step),
                    // In the second pass: here it is from the start what it was before.
                    false => Node::Change(vec![], before, 0),
                });
            }
        }
        Ok(Node::Brackets(nodes(open + 1, close)?))
    }

    /// The step of the pass at which a change at `number` comes, a number of steps or a `share` of them: at or past its last one
    /// if it comes in the second pass and this is the first. None if it never comes.
    fn step(&self, number: f64, share: bool) -> Option<usize> {
        let steps = self.steps as f64;
        let alone = if share { number * steps } else { number };
        let second = |first: usize, steps: usize| match share {
            true => (number - 1.0) * steps as f64,
            false => number - first as f64,
        };
        let (step, comes) = match self.pass {
            Pass::Only => (alone, alone < steps),
            Pass::First { second: more } => (alone, second(self.steps, more) < more as f64),
            Pass::Second { first } => {
                let step = second(first, self.steps);
                (step, step < steps)
            }
        };
        (number >= 0.0 && comes).then_some(step as usize)
    }

    /// Why `construct` never changes.
    fn late(&self, construct: String, when: String) -> ScheduleError {
        let (first, steps) = match self.pass {
            Pass::Only => {
                return ScheduleError::Late {
                    construct,
                    when,
                    steps: self.steps,
                };
            }
            Pass::First { second } => (self.steps, second),
            Pass::Second { first } => (first, self.steps),
        };
        ScheduleError::LateSecond {
            construct,
            when,
            first,
            steps,
        }
    }

    /// The colons and bars directly inside the brackets.
    fn separators(&self, open: usize, close: usize) -> (Vec<usize>, Vec<usize>) {
        let bytes = self.prompt.as_bytes();
        let (mut colons, mut bars) = (vec![], vec![]);
        let (mut at, mut round) = (open + 1, 0_usize);
        while at < close {
            match bytes[at] {
                b'\\' => at += 1,
                b'[' => at = self.closed(at).unwrap_or(at),
                b'(' => round += 1,
                b')' => round = round.saturating_sub(1),
                b':' if round == 0 => colons.push(at),
                b'|' if round == 0 => bars.push(at),
                _ => {}
            }
            at += 1;
        }
        (colons, bars)
    }
}

/// Square brackets and where they close, in ascending order. Brackets of both kinds nest; one that has no partner
/// within the other kind is text.
fn closing_brackets(prompt: &str) -> Vec<(usize, usize)> {
    let bytes = prompt.as_bytes();
    let (mut open, mut pairs) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], open.last()) {
            (b'\\', _) => at += 1,
            (b'[' | b'(', _) => open.push((bytes[at], at)),
            (b')', Some((b'(', _))) => {
                open.pop();
            }
            (b']', Some((b'[', start))) => {
                pairs.push((*start, at));
                open.pop();
            }
            _ => {}
        }
        at += 1;
    }
    pairs.sort_unstable();
    pairs
}

/// The steps at which the text may change, ascending, 0 first.
fn changes(nodes: &[Node], steps: usize) -> Vec<usize> {
    fn collect(nodes: &[Node], steps: usize, found: &mut Vec<usize>) {
        for node in nodes {
            match node {
                Node::Text(_) => {}
                Node::Brackets(inner) => collect(inner, steps, found),
                Node::Change(before, after, when) => {
                    found.push(*when);
                    collect(before, steps, found);
                    collect(after, steps, found);
                }
                Node::Alternate(choices) => {
                    found.extend(0..steps);
                    choices
                        .iter()
                        .for_each(|choice| collect(choice, steps, found));
                }
            }
        }
    }
    let mut found = vec![0];
    collect(nodes, steps, &mut found);
    found.sort_unstable();
    found.dedup();
    found
}

/// Writes the text of one step.
fn write(nodes: &[Node], step: usize, text: &mut String) {
    for node in nodes {
        match node {
            Node::Text(plain) => text.push_str(plain),
            Node::Brackets(inner) => {
                text.push('[');
                write(inner, step, text);
                text.push(']');
            }
            Node::Change(before, after, when) => {
                write(if step < *when { before } else { after }, step, text)
            }
            Node::Alternate(choices) => write(&choices[step % choices.len()], step, text),
        }
    }
}

/// Writes a prompt with what changes after the first step.
fn write_rest(nodes: &[Node], text: &mut String) {
    for node in nodes {
        match node {
            Node::Text(plain) => text.push_str(plain),
            Node::Brackets(inner) => {
                text.push('[');
                write_rest(inner, text);
                text.push(']');
            }
            Node::Change(_, after, 0) => write_rest(after, text),
            Node::Change(before, after, when) => {
                text.push('[');
                write_rest(before, text);
                text.push(':');
                write_rest(after, text);
                text.push_str(&format!(":{when}]"));
            }
            Node::Alternate(choices) => {
                for (number, choice) in choices.iter().enumerate() {
                    text.push(if number == 0 { '[' } else { '|' });
                    write_rest(choice, text);
                }
                text.push(']');
            }
        }
    }
}
