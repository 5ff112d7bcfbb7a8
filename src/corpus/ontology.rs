//! Kinds of things that can be seen: the ontology of appendix F.2.
//!
//! The paper has "seven major visual categories (e.g., Animals, Vehicles)" and does not print them. These seven and their
//! names are ours: COCO's and OTS-Bench's things, and common words for the like.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The seven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// People, by what they are or do.
    People,
    /// Animals.
    Animals,
    /// Vehicles.
    Vehicles,
    /// Furniture and what belongs to rooms.
    Furniture,
    /// Food, and what it is served in.
    Food,
    /// Things to carry, wear, play and work with.
    Belongings,
    /// What stands outside.
    Outdoors,
}

impl Kind {
    /// In tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Animals => "animals",
            Self::Vehicles => "vehicles",
            Self::Furniture => "furniture",
            Self::Food => "food",
            Self::Belongings => "belongings",
            Self::Outdoors => "outdoors",
        }
    }
}

/// Names in the singular, separated by `, `.
const NAMES: [(Kind, &str); 7] = [
    (
        Kind::People,
        "person, man, woman, boy, girl, child, kid, baby, toddler, teenager, lady, gentleman, guy, adult, physician, doctor, \
         nurse, dentist, pharmacist, teacher, professor, librarian, counselor, engineer, architect, electrician, mechanic, \
         plumber, carpenter, chef, cook, baker, waiter, waitress, barista, bartender, manager, designer, photographer, \
         musician, artist, painter, policeman, officer, firefighter, guard, paramedic, hairdresser, trainer, worker, king, \
         queen, prince, princess, soldier, sailor, farmer, student, lawyer, judge, pilot, astronaut, dancer, singer, actor, \
         actress, director, patient, tourist, coach, wizard, witch, knight, pirate, cowboy, clown, grandmother, grandfather, \
         mother, father, bride, groom, businessman, businesswoman, player, skater, surfer, skier, cyclist, rider, fisherman, monk",
    ),
    (
        Kind::Animals,
        "cat, dog, horse, pony, foal, cow, calf, bull, elephant, bear, zebra, giraffe, bird, sheep, lamb, rabbit, bunny, hamster, \
         guinea pig, hedgehog, pig, piglet, goat, fox, parrot, owl, eagle, hawk, penguin, chicken, hen, rooster, turtle, \
         tortoise, lizard, snake, frog, toad, crocodile, alligator, mouse, rat, fish, goldfish, butterfly, bee, duck, duckling, \
         goose, swan, deer, moose, camel, llama, lion, tiger, leopard, cheetah, panther, monkey, gorilla, chimpanzee, panda, \
         koala, wolf, puppy, kitten, squirrel, chipmunk, raccoon, otter, beaver, donkey, kangaroo, dolphin, whale, shark, seal, \
         octopus, crab, lobster, snail, spider, ant, dragonfly, ladybug, pigeon, crow, raven, sparrow, robin, peacock, flamingo, \
         ostrich, turkey, rhino, rhinoceros, hippo, hippopotamus, buffalo, bison, retriever, poodle, bulldog, labrador, terrier, \
         husky, corgi, dachshund, beagle, chihuahua, shepherd, dinosaur, dragon, unicorn",
    ),
    (
        Kind::Vehicles,
        "car, bicycle, bike, motorcycle, motorbike, bus, truck, lorry, pickup, airplane, aeroplane, plane, jet, boat, ship, \
         sailboat, yacht, canoe, kayak, ferry, submarine, train, locomotive, tram, helicopter, van, taxi, cab, tractor, \
         excavator, bulldozer, scooter, moped, ambulance, limousine, jeep, suv, caravan, trailer, carriage, wagon, rocket, balloon",
    ),
    (
        Kind::Furniture,
        "chair, armchair, couch, sofa, bed, crib, table, dining table, desk, bench, cabinet, cupboard, stool, bookshelf, shelf, \
         dresser, wardrobe, nightstand, tv, television, lamp, lantern, chandelier, candle, clock, vase, mirror, pillow, cushion, \
         blanket, rug, curtain, microwave, oven, stove, toaster, sink, refrigerator, fridge, toilet, bathtub, fireplace, piano, \
         potted plant, houseplant, painting, fan, radiator, washing machine",
    ),
    (
        Kind::Food,
        "bottle, cup, mug, glass, wine glass, bowl, plate, pot, pan, kettle, teapot, jug, fork, knife, spoon, pizza, cake, cupcake, \
         banana, apple, orange, sandwich, broccoli, carrot, hot dog, donut, doughnut, bread, loaf, croissant, bagel, tomato, potato, \
         onion, lemon, lime, strawberry, pear, peach, plum, cherry, grape, melon, watermelon, pineapple, mango, avocado, \
         hamburger, burger, egg, shrimp, ice cream, cheese, cookie, muffin, pancake, waffle, steak, sausage, salad, soup, coffee, \
         tea, beer, wine, milk, pumpkin, corn, mushroom, pepper",
    ),
    (
        Kind::Belongings,
        "teddy bear, doll, toy, robot, backpack, umbrella, handbag, purse, bag, basket, box, tie, suitcase, wallet, key, hat, cap, \
         helmet, watch, scarf, shoe, boot, sneaker, glove, ball, football, basketball, baseball, tennis racket, racket, skateboard, \
         surfboard, ski, snowboard, frisbee, baseball bat, kite, laptop, computer, keyboard, monitor, tablet, phone, cell phone, \
         smartphone, camera, remote, radio, speaker, headphone, book, notebook, newspaper, pen, pencil, brush, scissors, hammer, \
         screwdriver, drill, saw, toothbrush, hair drier, guitar, violin, cello, drum, saxophone, trumpet, flute, harp, gift, \
         trophy, sword, shield, crown, ring, necklace",
    ),
    (
        Kind::Outdoors,
        "tree, palm, bush, flower, rose, tulip, sunflower, cactus, rock, stone, mountain, house, hut, barn, cabin, church, castle, \
         tower, lighthouse, windmill, bridge, fence, gate, fountain, statue, tent, fire hydrant, stop sign, traffic light, \
         parking meter, street sign, street lamp, mailbox, snowman, scarecrow, birdhouse, swing, slide, well",
    ),
];

/// The kinds by name.
static KINDS: LazyLock<HashMap<&str, Kind>> = LazyLock::new(|| {
    let each = |(kind, names): &(Kind, &'static str)| {
        let kind = *kind;
        names.split(", ").map(move |name| (name, kind))
    };
    NAMES.iter().flat_map(each).collect()
});

/// The last words of all names.
static HEADS: LazyLock<std::collections::HashSet<&str>> = LazyLock::new(|| {
    let last = |name: &&'static str| name.rsplit(' ').next().unwrap_or_default();
    KINDS.keys().map(last).collect()
});

/// The kind of a noun in the singular, in lower case: of the whole, or of its last word ("golden retriever"). None of what is
/// no thing that can be seen.
pub fn kind(noun: &str) -> Option<Kind> {
    let last = noun.rsplit(' ').next().unwrap_or(noun);
    KINDS.get(noun).or_else(|| KINDS.get(last)).copied()
}

/// Whether a word may end a name that [`kind`] knows.
pub fn is_head(word: &str) -> bool {
    HEADS.contains(word)
}
