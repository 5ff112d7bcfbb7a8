//! Small words: numbers, "there is", modal verbs, joined words of place.

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
        ("a dozen eggs and two dozen lemons", "12 eggs, 24 lemons"),
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
        // Here it says something about what was named.
        ("a dog is three years old", "dog"),
        ("a dog and a cat are there asleep", "dog, cat"),
    ] {
        reads(prompt, expected);
    }
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
    ] {
        reads(prompt, expected);
    }
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
    reads("a man wearing a top_hat", "man");
    reads("a left-handed man", "left-handed man");
}
