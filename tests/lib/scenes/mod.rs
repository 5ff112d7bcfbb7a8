//! Scenes: what is read from prompts, and what is refused.

use prepose::prompt::scene::{GivenRelation, Relation, Scene};

mod extract;
mod lists;
mod neutral;
mod words;

/// Objects and relations in one line: `dog, cat: dog left of cat`; objects that are not one have their number.
fn summary(scene: &Scene) -> String {
    let objects: Vec<String> = scene
        .objects
        .iter()
        .map(|object| match object.count {
            Some(1) => object.phrase.clone(),
            Some(count) => format!("{count} {}", object.phrase),
            None => format!("some {}", object.phrase),
        })
        .collect();
    let relations: Vec<String> = scene
        .relations
        .iter()
        .map(|stated| scene.describe(stated))
        .collect();
    match relations.is_empty() {
        true => objects.join(", "),
        false => format!("{}: {}", objects.join(", "), relations.join("; ")),
    }
}

#[track_caller]
fn reads(prompt: &str, expected: &str) {
    match Scene::parse(prompt) {
        Ok(scene) => assert_eq!(summary(&scene), expected, "{prompt:?}"),
        Err(error) => panic!("{prompt:?}: {error}"),
    }
}

#[track_caller]
fn refuses(prompt: &str, part: &str) {
    match Scene::parse(prompt) {
        Ok(scene) => panic!("{prompt:?} reads as {}", summary(&scene)),
        Err(error) => assert!(error.to_string().contains(part), "{prompt:?}: {error}"),
    }
}

#[test]
fn simple_relations() {
    for (phrase, relation) in [
        ("to the left of", "left of"),
        ("left of", "left of"),
        ("on the left side of", "left of"),
        ("on the left-hand side of", "left of"),
        ("directly to the left of", "left of"),
        ("far to the left of", "left of"),
        ("to the right of", "right of"),
        ("right of", "right of"),
        ("on the right of", "right of"),
        ("above", "above"),
        ("right above", "above"),
        ("on top of", "above"),
        ("over", "above"),
        ("below", "below"),
        ("under", "below"),
        ("just beneath", "below"),
        ("on the bottom of", "below"),
        ("next to", "near"),
        ("right next to", "near"),
        ("near", "near"),
        ("beside", "near"),
        ("far from", "far from"),
        ("far away from", "far from"),
        ("in front of", "in front of"),
        ("right in front of", "in front of"),
        ("behind", "behind"),
        ("hidden by", "behind"),
        ("above and to the left of", "above left of"),
        ("to the right of and below", "below right of"),
        ("above left of", "above left of"),
        ("to the upper left of", "above left of"),
        ("on the top-right of", "above right of"),
        ("to the bottom right of", "below right of"),
        ("to the left and below", "below left of"),
        ("diagonally above and to the right of", "above right of"),
    ] {
        let expected = format!("dog, cat: dog {relation} cat");
        reads(&format!("a dog {phrase} a cat"), &expected);
        reads(&format!("A photo of a dog {phrase} the cat."), &expected);
        reads(
            &format!("there is a dog {phrase} a cat, oil painting"),
            &expected,
        );
        reads(&format!("A dog is {phrase} a cat"), &expected);
        reads(
            &format!("a dog sitting {phrase} a cat in a park"),
            &expected,
        );
    }
    reads("dog left of cat", "dog, cat: dog left of cat");
    reads(
        "a dog between a cat and a red car",
        "dog, cat, red car: dog between cat and red car",
    );
    reads(
        "a dog near and to the left of a cat",
        "dog, cat: dog near cat; dog left of cat",
    );
}

#[test]
fn several_relations() {
    let two = "dog, cat, red car: dog left of cat; dog above red car";
    reads("a dog to the left of a cat and above a red car", two);
    reads("a dog to the left of a cat, above a red car", two);
    reads("A dog is to the left of a cat and is above a red car.", two);
    reads(
        "A dog is to the left of a cat. The dog is above a red car.",
        two,
    );
    reads(
        "A dog is to the left of a cat and the dog is above a red car.",
        two,
    );
    reads("a dog left of a cat, the dog above a red car", two);
    let chain = "dog, cat, car: dog left of cat; cat above car";
    reads("a dog to the left of a cat above a car", chain);
    reads("a dog to the left of a cat that is above a car", chain);
    reads("a dog to the left of a cat, which is above a car", chain);
    reads("a dog left of a cat and the cat above a car", chain);
    reads("dog left of cat, cat above car", chain);
    reads(
        "a dog left of a cat and a bird above a car",
        "dog, cat, bird, car: dog left of cat; bird above car",
    );
    reads(
        "a dog and a cat to the left of a car",
        "dog, cat, car: dog left of car; cat left of car",
    );
    reads(
        "a dog, a cat and a bird are above a car",
        "dog, cat, bird, car: dog above car; cat above car; bird above car",
    );
    reads(
        "a dog to the left of a cat is above a car",
        "dog, cat, car: dog left of cat; dog above car",
    );
    reads("a dog, a cat to its left", "dog, cat: cat left of dog");
    reads("a dog and to its left a cat", "dog, cat: cat left of dog");
    reads(
        "a dog, and to the left of it a cat",
        "dog, cat: cat left of dog",
    );
    reads(
        "a dog. To the left of the dog is a cat.",
        "dog, cat: cat left of dog",
    );
    reads(
        "a dog. To the left of the dog, a cat.",
        "dog, cat: cat left of dog",
    );
    reads(
        "To the left of a dog there is a cat",
        "dog, cat: cat left of dog",
    );
    reads(
        "a dog on the left and a cat on the right",
        "dog, cat: dog left of cat",
    );
    reads(
        "on the left a dog, on the right a cat",
        "dog, cat: dog left of cat",
    );
    reads(
        "A dog is at the top of the image and a cat is at the bottom of the image.",
        "dog, cat: dog above cat",
    );
}

#[test]
fn objects_without_relations() {
    reads("a dog and a cat", "dog, cat");
    reads("a photo of a dog & a cat", "dog, cat");
    reads("a dog, a cat and a red car.", "dog, cat, red car");
    reads("a man and a woman in a park", "man, woman");
    reads("a cat is standing and a dog is standing", "cat, dog");
    reads(
        "A physician is waving and a nurse is saluting, side by side",
        "physician, nurse",
    );
    // What one subject does to another.
    reads("a boy is chasing a girl", "boy, girl");
    reads("The client is pointing at the chef.", "client, chef");
    reads("a girl is being chased by two dogs", "girl, 2 dogs");
    reads("a man riding a horse, oil painting", "man, horse");
    reads("a man holding a cup", "man");
    reads(
        "a dog to the left of a cat chasing a bird",
        "dog, cat, bird: dog left of cat",
    );
    refuses("a boy chasing a girl to the left of a car", "two ways");
    // States without "is".
    reads("One desk occupied and one boat clean.", "desk, boat");
    reads(
        "One female police officer waving openly and one goat ears forward.",
        "female police officer, goat",
    );
    reads(
        "One male architect kneeling on one knee and one goat gentle step.",
        "male architect, goat",
    );
    reads("one laptop open and one cup tipping over", "laptop, cup");
    reads("an orange orange", "orange orange");
    reads("a kitchen with a dog and a cat", "dog, cat");
    reads(
        "masterpiece, best quality, a dog, highly detailed, 4k",
        "dog",
    );
    reads("a castle", "castle");
    reads("castle", "castle");
    reads("a dog in the background", "dog");
    refuses("", "no object");
    refuses("in the", "no object");
}

#[test]
fn phrases() {
    reads(
        "a red and white car above a big, black dog",
        "red and white car, big black dog: red and white car above big black dog",
    );
    reads(
        "two dogs above a pair of scissors",
        "2 dogs, scissors: dogs above scissors",
    );
    reads("three teddy bears and dogs", "3 teddy bears, some dogs");
    reads(
        "a cup of coffee left of a bowl of fruit",
        "cup of coffee, bowl of fruit: cup of coffee left of bowl of fruit",
    );
    reads(
        "a skis below a scissors",
        "skis, scissors: skis below scissors",
    );
    reads(
        "a (red:1.3) teddy [bear] (to the left of) a ((fire hydrant))",
        "red teddy bear, fire hydrant: red teddy bear left of fire hydrant",
    );
    reads("a man wearing a top hat", "man");
    reads(
        "a dog runs to the left of a cat",
        "dog, cat: dog left of cat",
    );
    reads(
        "a painting near a building",
        "painting, building: painting near building",
    );
    let scene = Scene::parse("two red Fire Hydrants above wine glasses and people").unwrap_err();
    assert!(scene.to_string().contains("two ways"), "{scene}");
    let scene = Scene::parse("two red Fire Hydrants above wine glasses, and people").unwrap();
    let nouns: Vec<&str> = scene
        .objects
        .iter()
        .map(|object| object.noun.as_str())
        .collect();
    assert_eq!(nouns, ["fire hydrant", "wine glass", "person"]);
    let prompt = "a (red:1.2) dog and the [dog]";
    let scene = Scene::parse(prompt).unwrap();
    assert_eq!(&prompt[scene.objects[0].bytes.clone()], "red:1.2) dog");
}

#[test]
fn the_same_noun_twice() {
    reads("a dog left of a dog", "dog, dog: dog left of dog");
    reads("dog left of dog", "dog, dog: dog left of dog");
    reads("a dog left of another dog", "dog, dog: dog left of dog");
    reads(
        "a red dog and a blue dog, the red dog left of the blue dog",
        "red dog, blue dog: red dog left of blue dog",
    );
    reads(
        "a dog and a cat. The dog is left of the cat.",
        "dog, cat: dog left of cat",
    );
    refuses("the dog left of the dog", "cannot be left of itself");
    refuses("a dog and a dog. The dog is left of a cat.", "\"The dog\"");
    refuses("a dog and a cat. It is left of a car.", "\"It\"");
}

#[test]
fn contradictions() {
    for prompt in [
        "a dog left of a cat and right of the cat",
        "a dog left of a cat. The cat is left of a bird. The bird is left of the dog.",
        "a dog above a cat. The cat is above and to the right of the dog.",
        "a dog in front of a cat, the cat in front of the dog",
        "a dog near a cat. The dog is far from the cat.",
    ] {
        refuses(prompt, "contradict");
    }
    refuses(
        "a dog left of a cat and right of the cat",
        "dog left of cat; dog right of cat",
    );
    reads(
        "a dog left of a cat and to the left of the cat",
        "dog, cat: dog left of cat",
    );
    reads(
        "a dog left of a cat. The cat is right of the dog.",
        "dog, cat: dog left of cat; cat right of dog",
    );
}

#[test]
fn what_is_open_is_refused() {
    refuses("a dog to the left of a cat and a car", "two ways");
    refuses("a man with a hat to the left of a woman", "two ways");
    refuses("a dog, a cat and a bird above a car", "two ways");
    refuses(
        "a dog above a cat above a car and left of a bird",
        "two ways",
    );
    refuses("a dog, in which a cat is left of a ball", "two ways");
    refuses("a dog or a cat", "leaves open");
    refuses("a dog not to the left of a cat", "not there");
    refuses("no dog", "not there");
    refuses("a dog to the left", "no object to stand opposite");
    refuses(
        "a dog on the left of the picture and a cat",
        "no object to stand opposite",
    );
    refuses("a dog left of", "no object after it");
    refuses("to the left of a dog", "no subject");
    refuses("a dog between two cats", "\"between\"");
    refuses("a dog facing left", "\"left\"");
    refuses("a dog diagonally above a cat", "diagonally");
    refuses("a dog opposite a cat", "\"opposite\"");
    refuses("a dog in the left corner of a room", "\"left\"");
    refuses("a cat and a dog nearby", "\"nearby\"");
}

#[test]
fn given_relations() {
    let given = |prompt: &str, relations: &[&str]| {
        let given: Result<Vec<GivenRelation>, _> =
            relations.iter().map(|text| text.parse()).collect();
        match given.and_then(|given| Scene::with_relations(prompt, &given)) {
            Ok(scene) => summary(&scene),
            Err(error) => format!("error: {error}"),
        }
    };
    let says = |prompt: &str, relations: &[&str], expected: &str| {
        assert_eq!(given(prompt, relations), expected)
    };
    #[track_caller]
    fn fails(found: String, part: &str) {
        assert!(
            found.starts_with("error:") && found.contains(part),
            "{found}"
        );
    }
    says(
        "a dog and a cat",
        &["dog | left of | cat"],
        "dog, cat: dog left of cat",
    );
    says(
        "a red dog above a cat",
        &["a cat | to the left of | the dog"],
        "red dog, cat: cat left of red dog",
    );
    says(
        "a dog and a dog",
        &["dog|above|dog"],
        "dog, dog: dog above dog",
    );
    says(
        "a dog and a dog",
        &["dog#2 | above | dog#1"],
        "dog, dog: dog above dog",
    );
    says(
        "a dog, a cat and a car",
        &["dog | between | cat and car"],
        "dog, cat, car: dog between cat and car",
    );
    says(
        "a dog, a cat and a car",
        &["dog | between | cat | car"],
        "dog, cat, car: dog between cat and car",
    );
    says(
        "a dog and a cat",
        &["dog | front | cat", "dog|top|cat"],
        "dog, cat: dog in front of cat; dog above cat",
    );
    // By a part of an object's phrase that ends with its noun.
    says(
        "a big red car and a dog",
        &["red car | left of | dog", "car | above | dog"],
        "big red car, dog: big red car left of dog; big red car above dog",
    );
    says(
        "two brown dogs and a cat",
        &["dogs | left of | cat"],
        "2 brown dogs, cat: brown dogs left of cat",
    );
    says(
        "a big, red car and a dog",
        &["big, red car | left of | dog"],
        "big red car, dog: big red car left of dog",
    );
    says(
        "a children\u{2019}s toy and a dog",
        &[
            "children's toy | left of | dog",
            "dog | above | children\u{2019}s toy",
        ],
        "children\u{2019}s toy, dog: children\u{2019}s toy left of dog; dog above children\u{2019}s toy",
    );
    says(
        "a big red dog and a small red dog",
        &[
            "red dog | left of | red dog",
            "red dog#2 | below | red dog#1",
        ],
        "big red dog, small red dog: big red dog left of small red dog; small red dog below big red dog",
    );
    says(
        "a big red car and a dog. The red car is big.",
        &["red car | left of | dog"],
        "big red car, dog: big red car left of dog",
    );
    // Another thing than what the phrase is about.
    says(
        "a teddy bear and a cup of coffee",
        &["bear | left of | coffee"],
        "teddy bear, cup of coffee, bear, coffee: bear left of coffee",
    );
    // Of words that the rules refuse, or pass over.
    says(
        "a dog facing left, a cat",
        &["dog | right of | cat"],
        "dog, cat: dog right of cat",
    );
    says(
        "a man on a horse",
        &["man | above | horse"],
        "man, horse: man above horse",
    );
    fails(
        given("a dog and a cat", &["dog | left of | bird"]),
        "\"bird\" is not in the prompt \"a dog and a cat\"; its objects are: dog, cat",
    );
    fails(
        given("a dog and a cat", &["dog | left of | dog"]),
        "cannot be left of itself",
    );
    fails(
        given("a dog and a dog", &["cat | left of | dog"]),
        "\"cat\" is not in",
    );
    fails(
        given("a dog, a dog and a cat", &["cat | left of | dog"]),
        "dog#1 to dog#2",
    );
    fails(
        given("a dog and a cat", &["dog#3 | left of | cat"]),
        "no occurrence 3 of \"dog\", only 1",
    );
    fails(
        given("a dog and a cat", &["dog | over there | cat"]),
        "\"over there\" is not a relation",
    );
    fails(
        given("a dog and a cat", &["dog left of cat"]),
        "SUBJECT | RELATION | OBJECT",
    );
    fails(
        given("a dog and a cat", &["dog | left of | "]),
        "SUBJECT | RELATION | OBJECT",
    );
    fails(
        given("a dog and a cat", &["dog | between | cat"]),
        "needs two objects",
    );
    fails(
        given(
            "a dog and a cat",
            &["dog | above | cat", "cat | above | dog"],
        ),
        "contradict",
    );
}

#[test]
fn relations_have_names_and_inverses() {
    for relation in Relation::ALL {
        assert_eq!(relation.as_str().parse::<Relation>().unwrap(), relation);
        assert_eq!(
            relation
                .inverse()
                .and_then(Relation::inverse)
                .unwrap_or(relation),
            relation
        );
        if let (Some((x, y)), Some(inverse)) = (relation.direction(), relation.inverse()) {
            assert_eq!(inverse.direction(), Some((-x, -y)));
        }
    }
    for (name, relation) in [
        ("left_of", Relation::LeftOf),
        ("to the right of", Relation::RightOf),
        ("Top", Relation::Above),
        ("in front", Relation::InFrontOf),
        ("next to", Relation::Near),
        ("bottom-right of", Relation::BelowRight),
    ] {
        assert_eq!(name.parse::<Relation>().unwrap(), relation);
    }
    assert!("sideways".parse::<Relation>().is_err());
}

#[test]
fn anything_else_is_read_or_refused_without_panic() {
    let words = [
        "a", "the", "dog", "cats", "left", "of", "to", "on", "above", "and", ",", ".", "is",
        "which", "it", "its", "between", "two", "in", "(", ")", "[", "red:1.2)", "with", "not",
        "side", "BREAK", "é", "running", "there", "right", "-", "'s", "pair",
    ];
    let mut state = 1_u64;
    for _ in 0..5_000 {
        let mut prompt = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            prompt.push_str(words[(state >> 33) as usize % words.len()]);
            prompt.push(' ');
        }
        if let Ok(scene) = Scene::parse(&prompt) {
            for object in &scene.objects {
                assert!(!object.phrase.is_empty() && !prompt[object.bytes.clone()].is_empty());
            }
        }
    }
    // Long ones take no longer than they must.
    let long = "a big dog left of a cat, ".repeat(2500);
    assert!(Scene::parse(&long).is_ok());
    assert!(Scene::parse(&"word ".repeat(13_000)).is_ok());
}
