mod asking;
mod by_boxes;
mod proposing;
mod reading;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use prepose_check::rules::Case;
use prepose_check::{BoundingBox, Detection};
use prepose_draw::table::{Cell, Table};
use prepose_statistics::bootstrap::Bootstrap;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::leaks::{Leak, leaks};
use super::propose::{proposed, question};
use super::read::letter;
use super::rounds::{Rules, Votes, vote};
use super::tables::{Judged, domains, figures, letters, notes};
use super::{Choice, Control, Domain, Item, NONE_PLACE, QUESTIONS, geometry, read, to_line};
use crate::ask::{Judge, JudgeError, Manner, Reply};
use crate::book::Book;
use crate::picture::{Named, Seen};
use crate::question::{Answer, End, Form, Invalid, Question};

const TEN: &str = include_str!("../../../fixtures/spatialgen/ten.jsonl");

fn ten() -> Vec<Item> {
    read(TEN).unwrap()
}

/// Somebody who answers by the question's text and how often they were asked.
struct Says<F>(F, AtomicUsize);

impl<F: Fn(&Question, usize, bool) -> String + Sync> Judge for Says<F> {
    fn model(&self) -> &str {
        "somebody"
    }

    fn settings(&self) -> Value {
        json!({ "temperature": 1.0 })
    }

    fn reply(
        &self,
        question: &Question,
        shown: Option<(&Named, &Seen)>,
    ) -> Result<Reply, JudgeError> {
        let count = self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Reply {
            text: (self.0)(question, count, shown.is_some()),
            ..Reply::default()
        })
    }
}

fn says<F: Fn(&Question, usize, bool) -> String + Sync>(answer: F) -> Says<F> {
    Says(answer, AtomicUsize::new(0))
}

fn lines(letters: impl IntoIterator<Item = char>) -> String {
    letters
        .into_iter()
        .map(|letter| format!("{letter}\n"))
        .collect()
}

fn pictures(folder: &Path, items: &[Item]) -> Vec<Named> {
    let picture = |(number, item): (usize, &Item)| {
        let path = folder.join(format!("{}.png", item.id));
        image::RgbImage::from_pixel(2, 2, image::Rgb([number as u8; 3]))
            .save(&path)
            .unwrap();
        Named {
            id: item.id.clone(),
            path,
        }
    };
    items.iter().enumerate().map(picture).collect()
}

/// What a judge says of the ten, in each of the ways of asking.
fn judged<'a>(
    items: &'a [Item],
    judge: &dyn Judge,
    controls: &[Control],
    rules: &Rules,
    book: &mut Book,
) -> Vec<Judged<'a>> {
    let folder = tempfile::tempdir().unwrap();
    let named = pictures(folder.path(), items);
    let all: Vec<(&Item, Control)> = controls
        .iter()
        .flat_map(|control| items.iter().map(|item| (item, *control)))
        .collect();
    let questions: Vec<Question> = (all.iter().enumerate())
        .map(|(at, (item, control))| item.question(&item.id, at % items.len(), *control, 0))
        .collect();
    let manner = Manner {
        concurrency: 1,
        progress: &|_| (),
        stop: &AtomicBool::new(false),
    };
    let voted = vote(judge, &named, &questions, book, &manner, rules).unwrap();
    (all.into_iter().zip(voted.votes))
        .map(|((item, control), votes)| {
            Judged::of_votes(item, item.id.clone(), None, control, votes, rules, 0)
        })
        .collect()
}

fn cell(table: &Table, row: usize, column: &str) -> Cell {
    let at = table
        .columns
        .iter()
        .position(|name| name == column)
        .unwrap();
    table.rows[row][at].clone()
}

/// The key of the item whose questions are in a text, in the order in which its options stand.
fn key(items: &[Item], text: &str) -> Vec<char> {
    let item = items.iter().find(|item| {
        text.contains(item.questions[0].stem.as_str())
            && text.contains(item.questions[8].stem.as_str())
            && text.contains(item.questions[9].stem.as_str())
    });
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("Options:"))
        .collect();
    let of = |(choice, line): (&Choice, &&str)| {
        let answer = choice.answer().unwrap();
        let place = (0..4).find(|place| line.contains(&format!("{}: {answer},", letter(*place))));
        letter(place.unwrap())
    };
    item.unwrap().questions.iter().zip(&lines).map(of).collect()
}
