//! Names of things: which are several words, which group they belong to, singular and plural.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Things of a kind, with the words for one and for several of that kind.
pub(crate) struct Group {
    pub singular: &'static str,
    pub plural: &'static str,
    /// Separated by `, `.
    members: &'static str,
}

/// COCO's 80 classes (with GenEval's names for some), the things of T2I-CompBench's spatial lists, and the entities
/// of OTS-Bench. The first five groups and their plurals are the toybox's own (`scripts/toybox/world.py`).
const GROUPS: &[Group] = &[
    Group {
        singular: "animal",
        plural: "animals",
        members: "cat, dog, horse, cow, elephant, bear, zebra, giraffe, bird, sheep, rabbit, hamster, guinea pig, \
            hedgehog, pig, goat, fox, parrot, owl, eagle, penguin, chicken, turtle, lizard, snake, frog, \
            crocodile, mouse, fish, goldfish, butterfly, bee, duck, swan, deer, camel, lion, tiger, monkey, \
            panda, wolf, puppy, kitten, squirrel, donkey, kangaroo, dolphin, whale, shark, octopus, snail, \
            spider, ant, insect, crab, rat, pigeon, polar bear, grizzly bear",
    },
    Group {
        singular: "vehicle",
        plural: "vehicles",
        members: "car, bicycle, bike, motorcycle, motorbike, bus, truck, airplane, aeroplane, plane, boat, train, \
            ship, helicopter, van, taxi, tractor, scooter, sailboat, canoe, fire truck, school bus, police \
            car, race car, sports car, hot air balloon",
    },
    Group {
        singular: "household item",
        plural: "household items",
        members: "chair, couch, sofa, bed, dining table, table, desk, bench, cabinet, stool, bookshelf, tv, \
            television, laptop, computer, keyboard, computer keyboard, computer mouse, remote, tv remote, \
            remote control, cell phone, phone, camera, clock, vase, potted plant, lamp, candle, pillow, \
            microwave, oven, toaster, sink, refrigerator, fridge, toilet, hair drier, hair dryer, \
            toothbrush, book, monitor, tablet, scissors, printer, washing machine, mirror, painting, alarm clock, rocking \
            chair, coffee table",
    },
    Group {
        singular: "food item",
        plural: "food items",
        members: "bottle, cup, bowl, pizza, cake, banana, apple, orange, sandwich, broccoli, carrot, hot dog, \
            donut, doughnut, bread, tomato, lemon, strawberry, pear, hamburger, burger, egg, peach, shrimp, \
            ice cream, cheese, cookie, pineapple, grape, watermelon",
    },
    Group {
        singular: "object",
        plural: "objects",
        members: "teddy bear, fire hydrant, stop sign, traffic light, parking meter, street sign, mailbox",
    },
    Group {
        singular: "person",
        plural: "people",
        members: "person, man, woman, boy, girl, child, kid, baby, lady, gentleman, guy, adult, physician, doctor, \
            nurse, dentist, pharmacist, teacher, professor, librarian, counselor, civil engineer, engineer, \
            architect, electrician, mechanical engineer, chef, waiter, waitress, barista, bartender, \
            manager, financial manager, construction manager, sales manager, designer, photographer, \
            musician, artist, police officer, firefighter, security guard, paramedic, hairdresser, fitness \
            trainer, childcare worker, postal worker, male person, female person, king, queen, prince, \
            princess, soldier, farmer, student, lawyer, judge, pilot, astronaut, dancer, singer, actor, \
            actress, client, customer, model, director, patient, guest, tourist, coach, worker, wizard, knight, grandmother, grandfather, mother, father, businessman, \
            businesswoman",
    },
    Group {
        singular: "kitchen item",
        plural: "kitchen items",
        members: "wine glass, fork, knife, spoon, plate, glass, mug, pan, pot, frying pan",
    },
    Group {
        singular: "sports item",
        plural: "sports items",
        members: "ball, sports ball, tennis racket, skateboard, surfboard, ski, skis, snowboard, frisbee, baseball \
            bat, baseball glove, kite, soccer ball, tennis ball, baseball, basketball, football",
    },
    Group {
        singular: "musical instrument",
        plural: "musical instruments",
        members: "guitar, piano, violin, drum, saxophone, trumpet, flute, cello, harp",
    },
    Group {
        singular: "accessory",
        plural: "accessories",
        members: "backpack, umbrella, handbag, bag, tie, suitcase, wallet, key, hat, helmet, balloon, watch, \
            glasses, sunglasses, top hat, scarf, shoe, purse",
    },
];

/// Plurals that no rule gives.
const IRREGULAR: &str = "person/people man/men woman/women child/children mouse/mice knife/knives wolf/wolves leaf/leaves \
    shelf/shelves bookshelf/bookshelves goose/geese foot/feet tooth/teeth thief/thieves loaf/loaves \
    scarf/scarves ox/oxen gentleman/gentlemen policeman/policemen businessman/businessmen \
    businesswoman/businesswomen fireman/firemen snowman/snowmen bus/buses tomato/tomatoes \
    potato/potatoes hero/heroes shoe/shoes cookie/cookies pie/pies tie/ties movie/movies zombie/zombies \
    axe/axes lens/lenses gas/gases octopus/octopuses walrus/walruses virus/viruses rhinoceros/rhinoceroses \
    hippopotamus/hippopotamuses thermos/thermoses calf/calves half/halves";

/// The same in singular and plural, or without a singular.
const UNCHANGED: &str = "sheep fish deer goldfish shrimp scissors skis glasses sunglasses trousers pants shorts jeans \
    binoculars headphones stairs series species tongs pliers tennis sports clothes moose swimming cactus \
    octopus chess canvas christmas walrus atlas iris";

/// The noun in the singular, in lower case; only its last word changes.
pub(crate) fn singular(noun: &str) -> String {
    if noun == "wine glasses" {
        return "wine glass".to_owned();
    }
    let (before, last) = match noun.rsplit_once(' ') {
        Some((before, last)) => (format!("{before} "), last),
        None => (String::new(), noun),
    };
    format!("{before}{}", singular_word(last))
}

fn singular_word(word: &str) -> String {
    if listed(UNCHANGED, word) {
        return word.to_owned();
    }
    let mut irregular = IRREGULAR.split(' ').filter_map(|pair| pair.split_once('/'));
    // "lens" is no plural, though it looks like one.
    if let Some((singular, _)) = irregular.find(|(one, several)| [*one, *several].contains(&word)) {
        return singular.to_owned();
    }
    let ending = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.len() > 1);
    if let Some(stem) = ending("ies") {
        return format!("{stem}y");
    }
    for doubled in ["sses", "ches", "shes", "xes"] {
        if ending(doubled).is_some() {
            return word[..word.len() - 2].to_owned();
        }
    }
    if let Some(known) = ending("s").filter(|stem| group(stem).is_some()) {
        return known.to_owned();
    }
    match ending("s") {
        Some(stem) if !["s", "u", "i"].iter().any(|vowel| stem.ends_with(vowel)) => stem.to_owned(),
        _ => word.to_owned(),
    }
}

fn listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

/// Whether the word is a plural: its singular differs, or it has none.
pub(crate) fn is_plural(noun: &str) -> bool {
    singular(noun) != noun
}

/// Whether the noun has one form only, such as "sheep" and "scissors".
pub(crate) fn is_unchanging(noun: &str) -> bool {
    let last = noun.rsplit(' ').next().unwrap_or(noun);
    listed(UNCHANGED, last)
}

/// The groups by what belongs to them.
static GROUP_OF: LazyLock<HashMap<&str, &Group>> = LazyLock::new(|| {
    let named = |group: &'static Group| {
        let names = group.members.split(", ").chain([group.singular]);
        names.map(move |name| (name, group))
    };
    GROUPS.iter().flat_map(named).collect()
});

/// The group of a noun in the singular.
pub(crate) fn group(noun: &str) -> Option<&'static Group> {
    GROUP_OF.get(noun).copied()
}

/// Whether what the noun means can do something to others: people and animals.
pub(crate) fn is_subject(noun: &str) -> bool {
    group(noun).is_some_and(|group| ["animal", "person"].contains(&group.singular))
}

/// Whether what the noun means is eaten or drunk.
pub(crate) fn is_food(noun: &str) -> bool {
    group(&singular(noun)).is_some_and(|group| group.singular == "food item")
}

/// Nouns with a second meaning, and its group: beside a keyboard a mouse is no animal.
const ALSO: &[(&str, &str)] = &[("mouse", "household item")];

/// The groups of a noun in the singular, the usual one first.
pub(crate) fn groups(noun: &str) -> impl Iterator<Item = &'static Group> + Clone {
    let also = ALSO.iter().find(|(known, _)| *known == noun);
    let also = also.and_then(|(_, group)| GROUP_OF.get(group).copied());
    group(noun).into_iter().chain(also)
}

/// How many of the last `words`, in lower case, are one known noun: 2 for "red teddy bears", 0 for "castle".
pub(crate) fn known_at_end(words: &[&str]) -> usize {
    (1..=words.len().min(3))
        .rev()
        .find(|n| {
            let noun = words[words.len() - n..].join(" ");
            group(&singular(&noun)).is_some() || group(&noun).is_some()
        })
        .unwrap_or(0)
}

/// Numbers as words, from one.
pub(crate) const NUMBERS: &str = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen \
    seventeen eighteen nineteen twenty";

/// The number that a word says, if it is one.
pub(crate) fn number(word: &str) -> Option<usize> {
    if word == "dozen" {
        return Some(12);
    }
    let spelled = NUMBERS.split(' ').position(|number| number == word);
    spelled
        .map(|i| i + 1)
        .or_else(|| word.parse().ok().filter(|n| (1..=1000).contains(n)))
}

/// The number as a word, up to twenty.
pub(crate) fn spelled(number: usize) -> String {
    let word = number
        .checked_sub(1)
        .and_then(|i| NUMBERS.split(' ').nth(i));
    word.map_or_else(|| number.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals() {
        for (plural, one) in [
            ("dogs", "dog"),
            ("teddy bears", "teddy bear"),
            ("knives", "knife"),
            ("people", "person"),
            ("toothbrushs", "toothbrush"),
            ("toothbrushes", "toothbrush"),
            ("buses", "bus"),
            ("skis", "skis"),
            ("sheep", "sheep"),
            ("strawberries", "strawberry"),
            ("glass", "glass"),
            ("wine glasses", "wine glass"),
            ("boxes", "box"),
            ("horses", "horse"),
            ("bus", "bus"),
            ("mice", "mouse"),
            ("vases", "vase"),
            ("sports balls", "sports ball"),
            ("benches", "bench"),
            ("broccolis", "broccoli"),
            ("couches", "couch"),
            ("ties", "tie"),
            ("sandwichs", "sandwich"),
            ("knifes", "knife"),
            ("tennis", "tennis"),
            ("lens", "lens"),
            ("camera lenses", "camera lens"),
            ("gas", "gas"),
            ("gases", "gas"),
            ("walruses", "walrus"),
            ("walrus", "walrus"),
            ("viruses", "virus"),
            ("virus", "virus"),
            ("rhinoceros", "rhinoceros"),
            ("thermos", "thermos"),
            ("calves", "calf"),
        ] {
            assert_eq!(singular(plural), one);
        }
    }

    #[test]
    fn every_member_is_its_own_singular_and_in_one_group() {
        let mut seen = std::collections::HashSet::new();
        for group in GROUPS {
            for member in group.members.split(", ") {
                assert_eq!(singular(member), member);
                assert!(seen.insert(member), "{member} twice");
            }
        }
    }
}
