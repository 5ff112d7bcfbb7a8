//! What people and animals do and how things are in OTS-Bench (arXiv 2603.03714, table 9): 172, of which the paper
//! prints 126. The others are ours, and say so.
//!
//! The table names actions ("raising hand", "powered on/off"); the words here make a sentence of them, as figure 4 does
//! ("One desk occupied and one boat clean."). It counts nine motions and lists ten: "turning" is "rotating" here. Three
//! of the seven visual states are pairs, and count as one each, as there.

/// Whether the paper prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Table 9.
    Paper,
    /// Ours, where table 9 gives examples only; some are from figures 4 to 8.
    Ours,
}

/// What may be said of one subject, or of two.
#[derive(Clone, Copy, Debug)]
pub struct Actions {
    /// What can do it, separated by `, `; empty for all of the kind.
    pub only: &'static str,
    /// Who prints it.
    pub origin: Origin,
    /// Separated by `, `; the two of a contrast by `/`.
    pub texts: &'static str,
}

/// `_category` is the table's, for the reader.
const fn actions(
    _category: &'static str,
    only: &'static str,
    origin: Origin,
    texts: &'static str,
) -> Actions {
    Actions {
        only,
        origin,
        texts,
    }
}

use Origin::{Ours, Paper};

/// What a person does alone.
pub const HUMAN: &[Actions] = &[
    actions(
        "upper limbs",
        "",
        Paper,
        "raising one hand, waving, pointing, clapping, saluting, crossing the arms",
    ),
    actions(
        "torso and lower limbs",
        "",
        Paper,
        "leaning forward, stretching up, stepping forward, kneeling, squatting, lifting one leg, jumping, dancing, \
         holding a running pose",
    ),
];

/// What two people do at once, the one this and the other that.
pub const PARALLEL: &[Actions] = &[actions(
    "parallel",
    "",
    Paper,
    "standing/sitting, raising one hand/saluting, waving/clapping, looking up/looking down, leaning forward/leaning \
     backward",
)];

/// What one person does to another.
pub const INTERACTIVE: &[Actions] = &[
    actions(
        "interactive",
        "",
        Paper,
        "pointing at, scolding, patting, examining, photographing, instructing",
    ),
    actions(
        "interactive",
        "",
        Ours,
        "hugging, greeting, lifting, following",
    ),
];

const SMALL: &str = "cat, rabbit, hamster, guinea pig, hedgehog";
const MEDIUM: &str = "dog, sheep, pig, goat, fox";
const LARGE: &str = "horse, cow, elephant, giraffe, bear";
const BIRDS: &str = "parrot, owl, eagle, penguin, chicken";
const REPTILES: &str = "turtle, lizard, snake, frog, crocodile";

/// What an animal does alone.
pub const ANIMAL: &[Actions] = &[
    actions(
        "static postures",
        "",
        Paper,
        "sitting, standing, lying down, crouching",
    ),
    actions(
        "head and tail",
        "",
        Paper,
        "turning its head, tilting its head, looking up, sniffing, wagging its tail, raising its tail, curling its tail",
    ),
    actions(
        "head and tail",
        "",
        Ours,
        "stretching its neck, lowering its head, shaking its head",
    ),
    actions(
        "limb and body",
        "",
        Paper,
        "raising one paw, stretching, scratching, grooming, walking, running, jumping, rolling over, flying, swimming",
    ),
    actions("body-type specific", SMALL, Paper, "hopping, balancing"),
    actions("body-type specific", MEDIUM, Paper, "rearing, kicking"),
    actions("body-type specific", LARGE, Paper, "stomping, charging"),
    actions("body-type specific", BIRDS, Paper, "taking flight, diving"),
    actions("body-type specific", REPTILES, Paper, "lunging, coiling"),
    actions(
        "body-type specific",
        SMALL,
        Ours,
        "curling into a ball, licking its fur, nibbling",
    ),
    actions(
        "body-type specific",
        MEDIUM,
        Ours,
        "rooting the ground, digging, shaking its coat",
    ),
    actions(
        "body-type specific",
        LARGE,
        Ours,
        "grazing, kneeling, swinging its head",
    ),
    actions(
        "body-type specific",
        BIRDS,
        Ours,
        "spreading its wings, folding its wings, pecking the ground",
    ),
    actions(
        "body-type specific",
        REPTILES,
        Ours,
        "basking, crawling, opening its mouth",
    ),
];

/// What two animals do together.
pub const MUTUAL: &[Actions] = &[actions(
    "species interaction",
    "",
    Paper,
    "touching snouts, nuzzling, mirroring each other, howling together, touching paws, chasing each other playfully",
)];

const FURNITURE: &str = "chair, couch, bed, table, desk, bench, cabinet";
const KITCHENWARE: &str = "cup, bottle, bowl, plate, fork, knife, spoon";
const ELECTRONICS: &str = "laptop, keyboard, mouse, cell phone, television, remote, camera";
const VEHICLES: &str = "bicycle, motorcycle, car, bus, truck, boat, airplane";
const INSTRUMENTS: &str = "guitar, piano, violin, drum, saxophone, trumpet";

/// How a thing is.
pub const OBJECT: &[Actions] = &[
    actions(
        "motion states",
        "",
        Paper,
        "rotating, spinning, tilting, tipping over, leaning, sliding, floating, falling, rising",
    ),
    actions(
        "visual states",
        "",
        Paper,
        "lighting up, glowing, flashing, changing color, lit up/dark",
    ),
    actions(
        "visual states",
        "laptop, television, cell phone, camera",
        Paper,
        "powered on/powered off, with its screen on/with its screen off",
    ),
    actions(
        "morphological states",
        "",
        Paper,
        "expanding, shrinking, morphing, breaking, opening, closing, vibrating, moving",
    ),
    actions(
        "condition states",
        "",
        Paper,
        "clean, dirty, intact, broken, new, worn, empty, filled, upright, tilted, open, closed, occupied, unoccupied, \
         folded, unfolded, locked, unlocked",
    ),
    actions(
        "category-specific",
        ELECTRONICS,
        Paper,
        "with a cracked screen, charging",
    ),
    actions("category-specific", FURNITURE, Paper, "stacked, separated"),
    actions("category-specific", VEHICLES, Paper, "crashed, burning"),
    actions("category-specific", INSTRUMENTS, Paper, "tuned, untuned"),
    actions(
        "category-specific",
        ELECTRONICS,
        Ours,
        "wrapped, scratched, dismantled",
    ),
    actions(
        "category-specific",
        FURNITURE,
        Ours,
        "painted, overturned, polished",
    ),
    actions(
        "category-specific",
        VEHICLES,
        Ours,
        "parked, loaded, rusted",
    ),
    actions(
        "category-specific",
        INSTRUMENTS,
        Ours,
        "cased, varnished, damaged",
    ),
    actions("object-specific", "laptop", Paper, "opened, shut"),
    actions("object-specific", "cup", Paper, "tipped over, stained"),
    actions("object-specific", "car", Paper, "wrecked, smoking"),
    actions("object-specific", "guitar", Paper, "being played, silent"),
    actions("object-specific", "book", Ours, "bookmarked, torn"),
    actions("object-specific", "umbrella", Ours, "unfurled, dripping"),
    actions("object-specific", "suitcase", Ours, "packed, unpacked"),
    actions("object-specific", "clock", Ours, "ticking, stopped"),
    actions("object-specific", KITCHENWARE, Ours, "chipped, steaming"),
    actions("object-specific", "ball", Ours, "bouncing, deflated"),
];

impl Actions {
    /// Each text; a contrast is one.
    pub fn texts(&self) -> impl Iterator<Item = &'static str> {
        self.texts.split(", ")
    }

    /// Whether a subject of this name can do it.
    pub fn fit(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.split(", ").any(|known| known == name)
    }
}

/// What `name` can do alone, of these.
pub fn of(actions: &[Actions], name: &str) -> Vec<&'static str> {
    let fitting = actions.iter().filter(|actions| actions.fit(name));
    fitting.flat_map(Actions::texts).collect()
}

/// Whether nobody but us prints this text.
pub fn is_ours(text: &str) -> bool {
    let lists = [HUMAN, PARALLEL, INTERACTIVE, ANIMAL, MUTUAL, OBJECT];
    let all = lists.into_iter().flatten();
    let mut with = all.filter(|actions| {
        let mut texts = actions.texts().flat_map(|text| text.split('/'));
        texts.any(|known| known == text)
    });
    with.all(|actions| actions.origin == Ours)
}

/// The two of a contrast.
pub fn contrast(text: &str) -> Option<[&str; 2]> {
    text.split_once('/').map(|(one, other)| [one, other])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(lists: &[&[Actions]], origin: Origin) -> usize {
        let all = lists.iter().copied().flatten();
        let of = all.filter(|actions| actions.origin == origin);
        of.map(|actions| actions.texts().count()).sum()
    }

    /// Table 9 has 35, 55 and 82, and prints 31, 37 and 58 of them.
    #[test]
    fn there_are_as_many_as_in_table_9() {
        // Both of a pair of parallel actions count there.
        let parallel = 2 * count(&[PARALLEL], Paper);
        assert_eq!(parallel + count(&[HUMAN, INTERACTIVE], Paper), 31);
        assert_eq!(count(&[HUMAN, INTERACTIVE], Ours), 35 - 31);
        assert_eq!(count(&[ANIMAL, MUTUAL], Paper), 37);
        assert_eq!(count(&[ANIMAL, MUTUAL], Ours), 55 - 37);
        assert_eq!(count(&[OBJECT], Paper), 58);
        assert_eq!(count(&[OBJECT], Ours), 82 - 58);
        assert!(is_ours("hugging") && !is_ours("waving") && !is_ours("kneeling"));
    }
}
