//! The subjects of OTS-Bench (arXiv 2603.03714, table 8).

/// 32 occupations.
const OCCUPATIONS: &str = "physician, nurse, dentist, pharmacist, teacher, professor, librarian, counselor, civil engineer, \
    architect, electrician, mechanical engineer, chef, waiter, barista, bartender, manager, financial manager, \
    construction manager, sales manager, designer, photographer, musician, artist, police officer, firefighter, security \
    guard, paramedic, hairdresser, fitness trainer, childcare worker, postal worker";

/// The paper counts 49; its table 8 lists 48.
const OBJECTS: &str = "chair, couch, bed, table, desk, bench, cabinet, cup, bottle, bowl, plate, fork, knife, spoon, laptop, \
    keyboard, mouse, cell phone, television, remote, camera, ball, tennis racket, skateboard, surfboard, ski, frisbee, \
    baseball bat, bicycle, motorcycle, car, bus, truck, boat, airplane, guitar, piano, violin, drum, saxophone, trumpet, \
    book, umbrella, backpack, handbag, suitcase, clock, vase";

/// 25 animals.
#[rustfmt::skip]
pub(super) const ANIMALS: [&str; 25] = [
    "cat", "rabbit", "hamster", "guinea pig", "hedgehog", "dog", "sheep", "pig", "goat", "fox",
    "horse", "cow", "elephant", "giraffe", "bear", "parrot", "owl", "eagle", "penguin", "chicken",
    "turtle", "lizard", "snake", "frog", "crocodile",
];

/// Each occupation as a man and as a woman, in the words of figure 4 ("One male architect …").
pub(super) fn humans() -> Vec<String> {
    let both = |occupation| ["male", "female"].map(|gender| format!("{gender} {occupation}"));
    OCCUPATIONS.split(", ").flat_map(both).collect()
}

/// Things.
pub(super) fn objects() -> Vec<String> {
    OBJECTS.split(", ").map(str::to_owned).collect()
}
