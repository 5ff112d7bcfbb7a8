//! Small words: numbers, "there is", modal verbs, joined words of place.

use prepose::prompt::scene::Scene;

use super::{reads, refuses};

#[test]
fn numbers_that_are_open() {
    for (prompt, expected) in [
        ("a few dogs and a group of cats", "some dogs, some cats"),
        (
            "a bunch of bananas and a herd of sheep",
            "some bananas, some sheep",
        ),
        ("a lot of birds", "some birds"),
        ("a few dozen eggs", "some eggs"),
        (
            "several dozen cats left of a dog",
            "some cats, dog: cats left of dog",
        ),
        (
            "some dozen dogs, many dozen cats, dozens of birds",
            "some dogs, some cats, some birds",
        ),
        ("a dozen eggs and two dozen lemons", "12 eggs, 24 lemons"),
        (
            "half a dozen eggs left of a cup",
            "6 eggs, cup: eggs left of cup",
        ),
        ("a half dozen eggs", "6 eggs"),
        ("there are half a dozen eggs", "6 eggs"),
        (
            "a pair of scissors, a skis, a glasses",
            "scissors, skis, glasses",
        ),
    ] {
        reads(prompt, expected);
    }
}

#[test]
fn what_there_is_needs_no_article() {
    for (prompt, expected) in [
        ("there are two dogs and a cat", "2 dogs, cat"),
        ("there is one dog and one cat", "dog, cat"),
        ("there are dogs and a cat", "some dogs, cat"),
        ("There are 2 cats.", "2 cats"),
        ("there will be two dogs", "2 dogs"),
        ("there is dog left of cat", "dog, cat: dog left of cat"),
        ("a table where two cats are sleeping", "table, 2 cats"),
        (
            "To the left of the dog are two cats",
            "dog, 2 cats: cats left of dog",
        ),
        (
            "to the left of a man with a hat are two cats",
            "man, 2 cats: cats left of man",
        ),
        (
            "between a car and a bus are two dogs",
            "car, bus, 2 dogs: dogs between car and bus",
        ),
        (
            "a dog on grass and to its left are two cats",
            "dog, 2 cats: cats left of dog",
        ),
        ("In the park are two dogs", "2 dogs"),
        ("in a kitchen with a table are two dogs", "table, 2 dogs"),
        (
            "In a garden with a bench are two dogs and a cat",
            "bench, 2 dogs, cat",
        ),
        (
            "in a room with a bed are two dogs left of a cat",
            "bed, 2 dogs, cat: dogs left of cat",
        ),
        (
            "the animals in the picture are two dogs and a cat",
            "some animals, 2 dogs, cat",
        ),
        (
            "the main subjects are two dogs",
            "some main subjects, 2 dogs",
        ),
        // Here it says something about what was named.
        ("a dog is three years old", "dog"),
        (
            "a car is two trucks long, left of a bus",
            "car, bus: car left of bus",
        ),
        (
            "a giraffe is three cars tall and left of a dog",
            "giraffe, dog: giraffe left of dog",
        ),
        ("a dog and a cat are there asleep", "dog, cat"),
    ] {
        reads(prompt, expected);
    }
    // A distance, as "5 meters".
    for prompt in [
        "the cat is 5 meters to the left of the dog",
        "a cat is 2 chairs to the left of a dog",
        "the dog is 3 cars left of the cat",
        "in a park, a cat is 2 chairs left of a dog",
        "a dog left of a cat is 2 chairs left of a bird",
        "in a kitchen where a cat is 2 chairs left of a dog",
        "In a park with a lake a cat is 2 chairs left of a dog",
    ] {
        refuses(prompt, "two ways");
    }
}

/// After a thing "there" only points at it; "over" is no relation before it, and what is "above there" is above nothing named.
#[test]
fn there_only_points() {
    for (prompt, expected) in [
        (
            "a dog over there left of a cat",
            "dog, cat: dog left of cat",
        ),
        (
            "Over there is a dog left of a cat over here.",
            "dog, cat: dog left of cat",
        ),
        (
            "a dog sleeping there is above a cat",
            "dog, cat: dog above cat",
        ),
        ("a dog over there and a cat", "dog, cat"),
        (
            "to the left of the car there is a dog",
            "car, dog: dog left of car",
        ),
        (
            "on the left there is a dog and on the right there is a cat",
            "dog, cat: dog left of cat",
        ),
    ] {
        reads(prompt, expected);
    }
    refuses("a dog left of a cat over there and a bird", "two ways");
    refuses("a dog holding a cup there left of a cat", "two ways");
    refuses("a car, and above there is a dog", "\"above\"");
    refuses("a dog under there left of a cat", "\"under\"");
}

#[test]
fn what_comes_first_may_be_several() {
    for (prompt, expected) in [
        (
            "to the left of a dog and a cat is a bird",
            "dog, cat, bird: bird left of dog; bird left of cat",
        ),
        (
            "to the left of a dog and a cat are two birds",
            "dog, cat, 2 birds: birds left of dog; birds left of cat",
        ),
        (
            "next to a man and his dog are two cats",
            "man, dog, 2 cats: cats near man; cats near dog",
        ),
        ("above a car, a bird", "car, bird: bird above car"),
    ] {
        reads(prompt, expected);
    }
    refuses("to the left of a dog and a cat", "has no subject");
    refuses(
        "between a car and a bus and a tree are two dogs",
        "two ways",
    );
}

#[test]
fn modal_verbs() {
    for (prompt, expected) in [
        (
            "a dog can be seen to the left of a cat",
            "dog, cat: dog left of cat",
        ),
        (
            "a cat will be to the left of a dog",
            "cat, dog: cat left of dog",
        ),
        (
            "a dog that can clearly be seen left of a cat",
            "dog, cat: dog left of cat",
        ),
        ("a dog will run above a cat", "dog, cat: dog above cat"),
        ("a boy will chase a girl", "boy, girl"),
        // "fly" is no adverb.
        ("a bird can fly above a car", "bird, car: bird above car"),
        (
            "a plane will fly over a house",
            "plane, house: plane above house",
        ),
        (
            "a bird that can fly above a car",
            "bird, car: bird above car",
        ),
        // Verbs that no list has.
        ("a dog may bark left of a cat", "dog, cat: dog left of cat"),
        (
            "two dogs that may bark left of a cat",
            "2 dogs, cat: dogs left of cat",
        ),
        ("a man can see a dog", "man, dog"),
        // Here it is a noun.
        (
            "a trash can left of a dog",
            "trash can, dog: trash can left of dog",
        ),
        (
            "a trash can is left of a dog",
            "trash can, dog: trash can left of dog",
        ),
        (
            "a trash can sits left of a dog",
            "trash can, dog: trash can left of dog",
        ),
        (
            "a dog left of a watering can full of water",
            "dog, watering can full of water: dog left of watering can full of water",
        ),
        (
            "a tomato can lid left of a fish can",
            "tomato can lid, fish can: tomato can lid left of fish can",
        ),
        (
            "a fish can sits left of a dog",
            "fish can, dog: fish can left of dog",
        ),
        (
            "will smith left of a dog",
            "will smith, dog: will smith left of dog",
        ),
    ] {
        reads(prompt, expected);
    }
    refuses("a man can see a dog to the left of a cat", "two ways");
}

#[test]
fn words_of_place_may_be_joined() {
    for (phrase, relation) in [
        ("left_of", "left of"),
        ("left-of", "left of"),
        ("RIGHT_OF", "right of"),
        ("to_the_left_of", "left of"),
        ("top-left-of", "above left of"),
        ("in_front_of", "in front of"),
        ("next-to", "near"),
    ] {
        reads(
            &format!("dog {phrase} cat"),
            &format!("dog, cat: dog {relation} cat"),
        );
    }
    refuses("dog_left_of_cat", "\"dog_left_of_cat\"");
    refuses("a woman, looking_left", "\"looking_left\"");
    for clothes in ["top_hat", "black_top_hat", "red_tank_top"] {
        reads(&format!("a man wearing a {clothes}"), "man");
        reads(&format!("1girl, {clothes}, cat"), "cat");
    }
    refuses("a woman, top_hat_left", "\"top_hat_left\"");
    reads("a left-handed man", "left-handed man");
}

#[test]
fn which_stands_for_what_was_named_before() {
    for (prompt, expected) in [
        (
            "a cat, to the left of which is a dog",
            "cat, dog: dog left of cat",
        ),
        (
            "a table, on top of which is a cat",
            "table, cat: cat above table",
        ),
        (
            "a table under which there is a dog",
            "table, dog: dog below table",
        ),
        (
            "a dog, behind which stands a man",
            "dog, man: man behind dog",
        ),
        (
            "a man, behind whom stands a dog",
            "man, dog: dog behind man",
        ),
        (
            "a table, on top of which a cat sits, and a dog",
            "table, cat, dog: cat above table",
        ),
        (
            "a chair, to the left of which stands a dog and to the right of which stands a cat",
            "chair, dog, cat: dog left of chair; cat right of chair",
        ),
        (
            "a dog and a cat, between which is a bird",
            "dog, cat, bird: bird between dog and cat",
        ),
        (
            "a table, on top of which is a cat. A chair, under which is a dog.",
            "table, cat, chair, dog: cat above table; dog below chair",
        ),
        ("a dog that is left of a cat", "dog, cat: dog left of cat"),
    ] {
        reads(prompt, expected);
    }
    for prompt in [
        "a dog and a chair, to the left of which stands a cat",
        "a dog sitting on a table, on top of which is a cat",
        "a dog left of a cat, above which is a bird",
        "a table, on top of which is a cat, under which is a mouse",
        "a table, on top of which is a cat next to a dog and under which is a mouse",
        "To the left of which is a dog",
    ] {
        refuses(prompt, "which\" means");
    }
}

#[test]
fn a_side_is_of_what_stands_right_before_it() {
    for prompt in [
        "a table with a cat on the left and a dog on the right",
        "a wall with a clock at the top and a painting at the bottom",
        "a dog, with a cat on the left and a bird on the right",
        "a dog chasing a cat on the left and a bird on the right",
    ] {
        refuses(prompt, "two ways");
    }
    for prompt in [
        "a dog sitting on a chair on the left and a cat on the right",
        "a dog in a garden on the left and a cat on the right",
        "a dog holding a ball is on the left and a cat is on the right",
        "on the left a dog holding a ball, on the right a cat",
        "In a park on the left a dog, on the right a cat",
    ] {
        reads(prompt, "dog, cat: dog left of cat");
    }
}

#[test]
fn what_has_no_noun_is_refused() {
    refuses("a red and a blue car", "another \"car\"");
    refuses("a red, a blue, and a green car", "\"blue\" is a thing");
    refuses("one red and one blue car", "two ways");
    refuses(
        "two cats, the first to the left of the second",
        "\"the first\"",
    );
    refuses("a cat and a dog, the latter above a car", "\"the latter\"");
    refuses("a cat nowhere near a dog", "not there");
    for (prompt, expected) in [
        ("an orange and a red apple", "orange, red apple"),
        ("a glass and a red car", "glass, red car"),
        ("a light and a chair", "light, chair"),
        ("a red and blue car", "red and blue car"),
        ("the first dog and the second cat", "first dog, second cat"),
    ] {
        reads(prompt, expected);
    }
}

/// As macOS decomposes them, accents are characters of their own.
#[test]
fn accents_belong_to_their_letters() {
    for prompt in [
        "a nin\u{303}o left of a cafe\u{301}",
        "a niño left of a café",
        "a nin\u{303}o and a café. The niño is left of the cafe\u{301}.",
    ] {
        let scene = Scene::parse(prompt).unwrap();
        let nouns: Vec<&str> = scene.objects.iter().map(|object| &*object.noun).collect();
        assert_eq!((nouns, scene.relations.len()), (vec!["niño", "café"], 1));
        assert_eq!(
            prompt[scene.objects[0].bytes.clone()],
            scene.objects[0].phrase
        );
    }
    // Marks between letters of other scripts, and letters that are joined or kept apart.
    reads("a हिन्दी and a نمی\u{200c}خواهم", "हिन्दी, نمی\u{200c}خواهم");
}
