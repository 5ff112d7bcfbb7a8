//! Prompts as a text encoder reads them.

use burn::tensor::{Device, Tensor, TensorData};
use prepose::prompt::scene::{Scene, TokenPolicy};
use prepose::prompt::{MAX_CHUNKS, Prompt, Span};
use prepose_weights::tokenizer::{ClipTokenizer, Padding};

fn clip() -> ClipTokenizer {
    ClipTokenizer::clip(Padding::EndOfText)
}

fn parse(text: &str, tokenizer: &ClipTokenizer) -> Prompt {
    Prompt::parse(text, tokenizer).unwrap()
}

fn ids(prompt: &Prompt) -> Vec<&[u32]> {
    prompt
        .iter_chunks()
        .map(|chunk| chunk.ids.as_slice())
        .collect()
}

#[test]
fn short_prompts_are_padded_as_diffusers_pads_them() {
    let clip = clip();
    let prompt = parse("a photo of a cat", &clip);
    let mut expected = vec![49406, 320, 1125, 539, 320, 2368];
    expected.resize(77, 49407);
    assert_eq!(ids(&prompt), [expected]);
    let chunk = prompt.iter_chunks().next().unwrap();
    assert_eq!(
        (chunk.eos_position, chunk.weights.clone()),
        (6, vec![1.0; 77])
    );

    let sdxl = ClipTokenizer::clip(Padding::Exclamation);
    let mut expected = vec![49406, 320, 2368, 49407];
    expected.resize(77, 0);
    assert_eq!(ids(&parse("a cat", &sdxl)), [expected]);

    let empty = parse("", &clip);
    assert!(empty.is_empty() && parse(" ([]) ", &clip).is_empty());
    assert_eq!(
        (
            empty.chunks(),
            empty.iter_chunks().next().unwrap().eos_position
        ),
        (1, 1)
    );
    // Text may contain the end token; CLIP pools at the first.
    assert_eq!(
        parse("a <|endoftext|> b", &clip)
            .iter_chunks()
            .next()
            .unwrap()
            .eos_position,
        2
    );
}

#[test]
fn long_prompts_continue_in_chunks() {
    let clip = clip();
    let exact = parse(&"cat ".repeat(75), &clip);
    assert_eq!(exact.chunks(), 1);
    assert_eq!(ids(&exact)[0][75..], [2368, 49407]);

    let long = parse(&"cat ".repeat(76), &clip);
    assert_eq!(long.chunks(), 2);
    assert_eq!(ids(&long)[1][..4], [49406, 2368, 49407, 49407]);
    assert_eq!(
        long.iter_chunks()
            .map(|chunk| chunk.eos_position)
            .collect::<Vec<_>>(),
        [76, 2]
    );

    let padded = parse("dog", &clip).padded_to(3, &clip);
    assert_eq!(
        (padded.chunks(), ids(&padded)[2][..3].to_vec()),
        (3, vec![49406, 49407, 49407])
    );

    let broken = parse("a dog BREAK BREAK a cat", &clip);
    assert_eq!(
        ids(&broken).iter().map(|ids| ids[2]).collect::<Vec<_>>(),
        [1929, 2368]
    );
    // No chunk is without text; that of the web UI is none either after a last `BREAK`, whatever white space follows.
    for text in [
        "a dog BREAK",
        "a dog BREAK ",
        "a dog BREAK \n(BREAK) ",
        " BREAK a dog",
    ] {
        assert_eq!(
            ids(&parse(text, &clip)),
            ids(&parse("a dog", &clip)),
            "{text:?}"
        );
    }

    assert_eq!(
        parse(&"cat ".repeat(75 * MAX_CHUNKS), &clip).chunks(),
        MAX_CHUNKS
    );
    let error = Prompt::parse(&"cat ".repeat(5000), &clip)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("5000 tokens in 67 chunks") && error.contains("at most 10"),
        "{error}"
    );
    let error = Prompt::parse(&"a".repeat(1 << 20), &clip)
        .unwrap_err()
        .to_string();
    assert!(error.contains("1048576 bytes"), "{error}");
}

#[test]
fn captions_are_read_literally_and_cut_to_one_chunk() {
    let clip = clip();
    let read = |text: &str| Prompt::literal(text, &clip).unwrap();
    assert_eq!(
        ids(&read("a photo of a cat")),
        ids(&parse("a photo of a cat", &clip))
    );
    for text in [
        "SPRING BREAK 2024",
        "(a cat:1.3) [and] \\(a dog\\)",
        "(a cat:99)",
    ] {
        let tokens = clip.encode(text).unwrap();
        let mut expected = vec![49406];
        expected.extend(tokens.iter().map(|token| token.id));
        expected.resize(77, 49407);
        let read = read(text);
        assert_eq!(ids(&read), [expected], "{text}");
        assert_eq!(read.first().eos_position, tokens.len() + 1);
        assert!(read.first().weights.iter().all(|weight| *weight == 1.0));
    }
    // 75 of text between start and end, also where a prompt would be refused: 800 tokens, and more than 64 KiB.
    for words in [76, 800, 20_000] {
        assert_eq!(
            ids(&read(&"cat ".repeat(words))),
            ids(&parse(&"cat ".repeat(75), &clip))
        );
    }
    assert!(read("").is_empty());
}

#[test]
fn weights_stand_at_their_tokens() {
    let clip = clip();
    let prompt = parse("a (red teddybear:1.5) [cat]", &clip);
    let chunk = prompt.iter_chunks().next().unwrap();
    assert_eq!(
        chunk.ids[..7],
        parse("a red teddybear cat", &clip)
            .iter_chunks()
            .next()
            .unwrap()
            .ids[..7]
    );
    let expected = [1.0, 1.0, 1.5, 1.5, 1.5, 1.0 / 1.1, 1.0];
    assert!(
        chunk
            .weights
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 1e-6),
        "{:?}",
        chunk.weights
    );
}

#[test]
fn weights_keep_the_mean() {
    let clip = clip();
    let values: Vec<f32> = (0..77 * 4)
        .map(|i| ((i * 37 % 101) as f32 - 30.0) / 50.0)
        .collect();
    let hidden =
        || Tensor::<3>::from_data(TensorData::new(values.clone(), [1, 77, 4]), &Device::flex());
    let apply = |text| -> Vec<f32> {
        let prompt = parse(text, &clip);
        let chunk = prompt.iter_chunks().next().unwrap();
        chunk
            .apply_weights(hidden())
            .into_data()
            .try_to_vec()
            .unwrap()
    };
    assert_eq!(apply("a cat"), values);
    let weighted = apply("a (cat:1.4)");
    let mean = |values: &[f32]| values.iter().sum::<f32>() / values.len() as f32;
    assert!((mean(&weighted) - mean(&values)).abs() < 1e-6);
    let factor = weighted[0] / values[0];
    for (i, (new, old)) in weighted.iter().zip(&values).enumerate() {
        let weight = if i / 4 == 2 { 1.4 } else { 1.0 };
        assert!(
            (new - old * weight * factor).abs() < 1e-6,
            "position {}",
            i / 4
        );
    }
}

#[test]
fn phrases_have_positions() {
    let clip = clip();
    let text = "A red Teddybear, a dog on a (RED  teddybear:1.2); dogs";
    let prompt = parse(text, &clip);
    let all = |phrase: &str| prompt.occurrences(phrase, &clip).unwrap();
    let positions = |phrase: &str| {
        all(phrase)
            .into_iter()
            .map(|span| span.positions)
            .collect::<Vec<_>>()
    };
    // "teddybear" is two tokens.
    assert_eq!(
        positions("red teddybear"),
        [vec![2, 3, 4], vec![10, 11, 12]]
    );
    assert_eq!(positions("dog"), [vec![7]]);
    assert_eq!(positions("a"), [vec![1], vec![6], vec![9]]);
    assert!(
        positions("bear").is_empty() && positions("cat").is_empty() && positions(" ").is_empty()
    );
    let sources: Vec<&str> = all("red teddybear")
        .iter()
        .map(|span| &text[span.bytes.clone()])
        .collect();
    assert_eq!(sources, ["red Teddybear", "RED  teddybear"]);

    let second = prompt.find("Red Teddybear", 1, &clip).unwrap();
    assert_eq!(second, all("red teddybear")[1]);
    assert_eq!(
        prompt.find("cat", 0, &clip).unwrap_err().to_string(),
        "\"cat\" is not in the prompt"
    );
    let error = prompt.find("dog", 1, &clip).unwrap_err().to_string();
    assert_eq!(error, "the prompt has no occurrence 2 of \"dog\", only 1");
}

#[test]
fn positions_count_through_chunks() {
    let clip = clip();
    let prompt = parse(&format!("{}fire hydrant, bench", "cat ".repeat(74)), &clip);
    let find = |phrase: &str| -> Span { prompt.find(phrase, 0, &clip).unwrap() };
    assert_eq!(find("fire hydrant").positions, [75, 78, 79]);
    assert_eq!(find("bench").positions, [81]);
    let joined: Vec<u32> = prompt
        .iter_chunks()
        .flat_map(|chunk| chunk.ids.clone())
        .collect();
    let bench = clip.encode("bench").unwrap()[0].id;
    assert_eq!(joined[81], bench);
}

#[test]
fn objects_have_token_positions() {
    let clip = clip();
    let positions = |text: &str, policy| -> Vec<Vec<usize>> {
        let (scene, prompt) = (Scene::parse(text).unwrap(), parse(text, &clip));
        let objects = scene.objects.iter();
        objects
            .map(|object| prompt.positions_of(object, policy).unwrap())
            .collect()
    };
    let mean = |text: &str| positions(text, TokenPolicy::Mean);
    // "surfboard" and "hydrant" are two tokens each; articles and numbers do not count.
    let text = "A photo of a red surfboard to the left of two fire hydrants.";
    assert_eq!(mean(text)[0], [5, 6, 7]);
    assert_eq!(mean(text)[1][..2], [13, 14]);
    assert_eq!(positions(text, TokenPolicy::First), [[5], [13]]);
    // Weights do not shift anything, and their numbers are no tokens.
    assert_eq!(
        mean("a (red:1.2) dog (left of:1.3) [a cat]"),
        [vec![2, 3], vec![7]]
    );
    assert_eq!(mean("a red dog left of a cat"), [vec![2, 3], vec![7]]);
    // Where the weight stays as it is, too; and other notation around the phrase.
    assert_eq!(
        mean("a (red car:1.0) to the left of a [(cat)]"),
        [vec![2, 3], vec![9]]
    );
    assert_eq!(mean(r"a (dog:1.0) left of \(big cat\)")[0], [2]);
    let big_cat = &mean(r"a dog left of \(big cat\)")[1];
    assert_eq!(big_cat, &[6, 7]);
    // Each its own occurrence.
    assert_eq!(mean("a dog left of a dog"), [vec![2], vec![6]]);
    assert_eq!(
        mean("a black dog, a dog house and a dog. The black dog is left of the dog house."),
        [vec![2, 3], vec![6, 7], vec![10]]
    );
    // A word of textual inversion has all of its own, the brackets' too.
    let learned = clip.encode("<cat-toy>").unwrap().len();
    assert_eq!(
        mean("a <cat-toy> left of a dog"),
        [(2..2 + learned).collect::<Vec<_>>(), vec![learned + 5]]
    );
    // Over the end of a chunk.
    let long = format!("{}a fire truck left of a dog", "very ".repeat(73));
    let scene =
        Scene::with_relations(&long, &["fire truck | left of | dog".parse().unwrap()]).unwrap();
    let prompt = parse(&long, &clip);
    let truck = &scene.objects[scene.relations[0].subject];
    assert_eq!(
        prompt.positions_of(truck, TokenPolicy::Mean).unwrap(),
        [75, 78]
    );
}
