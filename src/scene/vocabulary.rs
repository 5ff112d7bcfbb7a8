//! The small words of the grammar, as lists for [`Word::is_one_of`](super::Word::is_one_of).

use crate::nouns;

/// Words before a noun that name no thing.
pub(crate) const DETERMINERS: &str = "a an the another other some this that these those his her its their my your our several many both \
    all few multiple various each every single only";

/// Determiners after which a thing that was mentioned before is meant.
pub(crate) const DEFINITE: &str = "the this that these those both his her its their";

/// Stand for a thing that was mentioned before.
pub(crate) const PRONOUNS: &str = "it them they he she him";

/// Join things or statements.
pub(crate) const AND: &str = "and while but then plus whereas";

pub(crate) const OR: &str = "or nor either neither";

pub(crate) const NOT: &str = "not no never nowhere isn't aren't none";

/// Begin a clause about the noun before them.
pub(crate) const WHICH: &str = "which that who whom where";

/// After "the" and without a noun they mean one of several that were named, in an order that is not kept.
pub(crate) const ORDINALS: &str = "first second third fourth fifth last former latter others";

/// Verbs that say no more than that something is somewhere.
pub(crate) const BE: &str = "is are was were be been being stands stand sits sit lies lie stays rests hangs floats appears stood \
    sat lay seen looks seems remains there here";

/// Of those, the ones that only point at a place where no verb follows: "a dog over there".
pub(crate) const POINTERS: &str = "there here";

/// Finite verbs that commonly say what a thing does. Participles are known by their endings.
pub(crate) const VERBS: &str = "runs run jumps walks walk eats eat sleeps sleep plays swims waits waves leans faces chases follows \
    rides ride holds hold reads read carries carry wears wear watches looks look has have flies talks \
    smiles dances sings cooks drives worn held made shown hung kept seen drawn built set does do drinks \
    climbs pushes pulls";

/// Before another verb they say no more than that verb; alone some are nouns: "trash can".
pub(crate) const MODALS: &str = "can could will would may might must should shall";

/// Prepositions that begin words about a thing's place or looks, which no relation is read from.
pub(crate) const PREPOSITIONS: &str = "in on at inside into onto within upon during by from for with against along across through around \
    outside like to amid among off out up down towards toward using via near-by surrounded side-by-side \
    together alone of about than after before as without";

/// Of those, the ones that may join a verb with whom it is done to: "pointing at a chef".
pub(crate) const ACTION_PREPOSITIONS: &str = "at to with after from towards toward";

/// Of those, the ones that keep what follows where the thing is; after the others it may be elsewhere.
pub(crate) const SAME_PLACE: &str =
    "in on at inside within upon outside together alone side-by-side during";

/// Words of pictures: "a photo of …".
pub(crate) const PICTURES: &str = "photo photograph picture image painting drawing illustration render rendering shot snapshot sketch \
    scene view portrait close-up closeup depiction artwork cartoon watercolor watercolour photos \
    pictures still composition";

/// What joins a picture with what it shows.
pub(crate) const SHOWING: &str =
    "of showing with depicting featuring containing where shows depicts that";

/// Places that a scene may be set in: "a kitchen with …".
pub(crate) const PLACES: &str = "kitchen room bedroom bathroom park street field beach garden forest city desert studio office meadow \
    landscape background yard farm classroom restaurant";

/// Verbs before what is wanted: "draw a cat".
pub(crate) const ORDERS: &str = "draw generate create show imagine make paint depict me please";

/// Nouns that stand for their contents: "a pair of dogs".
pub(crate) const COLLECTIONS: &str =
    "pair couple group bunch herd flock lot lots set number dozens";

/// Adjectives that "and" or a comma may join within a phrase: "a red and white car".
pub(crate) const ADJECTIVES: &str = "red green blue yellow orange purple pink black white brown gray grey golden gold silver cyan magenta \
    beige turquoise violet big small large little tiny huge giant tall short long wide old young new \
    ancient modern cute fluffy shiny round square wooden metal metallic plastic glass rubber leather \
    fabric fat thin bright dark light happy sad angry beautiful pretty ugly colorful colourful striped \
    spotted furry soft hard wet dry hot cold clean dirty empty full broken smiling male female realistic";

/// States that are said of a thing without "is": "one desk occupied and one boat clean".
pub(crate) const STATES: &str = "occupied intact worn filled upright tilted open closed folded unfolded locked unlocked lit untuned tuned \
    silent torn shut gentle awake asleep alert calm still visible";

/// Begin words about the noun before them alone, also in a list: "a man and a woman with a hat".
pub(crate) const OWN: &str = "with without wearing holding carrying has wears holds carries";

/// Nouns that look like participles.
pub(crate) const NO_PARTICIPLES: &str = "painting building ring wing king string ceiling swing spring clothing earring pudding drawing \
    railing sibling duckling thing wedding sling herring bed sled shed seed weed moped reed bobsled \
    steed breed flatbed dining parking washing rocking frying red viking lightning morning evening \
    carving rigging bunting seedling dumpling stocking";

/// The verbs that say what one thing does: "sits", "runs".
fn finite_verbs() -> impl Iterator<Item = &'static str> {
    let verbs = [BE, VERBS].into_iter().flat_map(|list| list.split(' '));
    verbs.filter(|verb| verb.ends_with('s'))
}

/// Whether the word is a verb that says what one thing does: "sits", "runs".
pub(crate) fn is_finite_verb(word: &str) -> bool {
    finite_verbs().any(|verb| verb == word)
}

/// Whether the word is a verb as it stands after "can" and "will": "be", "sit", "run".
pub(crate) fn is_base_verb(word: &str) -> bool {
    // "is" is no plural, and so its own singular.
    let base_of = |verb: &str| verb != word && nouns::singular(verb) == word;
    ["be", "have", "do"].contains(&word) || finite_verbs().any(base_of)
}
