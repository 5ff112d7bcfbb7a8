//! PyTorch files of kilobytes or a few megabytes that would become gigabytes, or take hours.

use super::Folder;

/// A zip archive with this pickle, and 64 bytes as the storage `0`.
fn archive(pickle: &[u8]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in [("x/data.pkl", pickle), ("x/data/0", &[1; 64])] {
        let offset = (archive.len() as u32).to_le_bytes();
        let size = (content.len() as u32).to_le_bytes();
        let length = (name.len() as u16).to_le_bytes();
        let local = [
            &b"PK\x03\x04"[..],
            &[0; 22],
            &length,
            &[0; 2],
            name.as_bytes(),
            content,
        ];
        archive.extend(local.concat());
        let entry = [
            &b"PK\x01\x02"[..],
            &[0; 16],
            &size,
            &size,
            &length,
            &[0; 12],
            &offset,
            name.as_bytes(),
        ];
        directory.extend(entry.concat());
    }
    let (start, size) = (archive.len() as u32, directory.len() as u32);
    archive.extend([&directory[..], b"PK\x05\x06\0\0\0\0\x02\0\x02\0"].concat());
    archive.extend([&size.to_le_bytes()[..], &start.to_le_bytes(), &[0; 2]].concat());
    archive
}

/// A text.
fn text(text: &[u8]) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text].concat()
}

/// Pushes a tensor of these sizes and strides over the 16 numbers of the storage.
fn tensor(sizes: &[u8], strides: &[u8]) -> Vec<u8> {
    let call = b"ctorch._utils\n_rebuild_tensor_v2\n(";
    let storage = b"(\x8c\x07storagectorch\nFloatStorage\n\x8c\x010\x8c\x03cpuK\x10tQ";
    [&call[..], storage, b"K\x00", sizes, strides, b"tR"].concat()
}

/// A dictionary with what `inside` puts into it.
fn dictionary(inside: &[u8]) -> Vec<u8> {
    archive(&[&b"\x80\x02}"[..], inside, b"."].concat())
}

#[test]
fn little_does_not_become_much() {
    let folder = Folder::new();
    let megabyte = text(&[b'n'; 1 << 20]);
    let remembered = [&megabyte[..], b"q\x000"].concat();
    let named =
        |i: usize, value: &[u8]| [&text(format!("t{i}").as_bytes())[..], value, b"s"].concat();
    let one = tensor(b"K\x04\x85", b"K\x01\x85");
    let many = |count: usize, value: &[u8]| {
        (0..count)
            .flat_map(|i| named(i, value))
            .collect::<Vec<u8>>()
    };
    let class = [
        &b"c"[..],
        &[b'm'; 1 << 20],
        b"\n",
        &[b'n'; 1 << 20],
        b"\nq\x000",
    ]
    .concat();
    for (inside, part) in [
        // A text of a megabyte as 20,000 keys, values, and in a list.
        (
            [&remembered[..], &b"h\x00h\x00s".repeat(20_000)].concat(),
            "no tensors",
        ),
        (
            [&remembered[..], b"K\x01](", &b"h\x00".repeat(20_000), b"es"].concat(),
            "no tensors",
        ),
        // The name of a class of two megabytes, called 20,000 times.
        (
            [&class[..], &b"K\x01h\x00)Rs".repeat(20_000)].concat(),
            "no tensors",
        ),
        // A tensor of one name under another, eight deep, with a megabyte for each.
        (
            [&remembered[..], b"h\x00}h\x00}h\x00", &one, b"sss"].concat(),
            "too long",
        ),
        // One tensor by 100,000 names.
        (
            [&one[..], b"q\x000", &many(100_000, b"h\x00")].concat(),
            "more than 65536 tensors",
        ),
        // A tensor shown again and again.
        (
            named(0, &tensor(b"\x8a\x05\0\0\0\x80\0\x85", b"K\x00\x85")),
            "repeats the same numbers",
        ),
        // A storage with another size than it is said to have.
        (
            named(0, &tensor(b"K\x04\x85", b"K\x01\x85"))
                .iter()
                .map(|b| if *b == 0x10 { 0x11 } else { *b })
                .collect(),
            "another size",
        ),
    ] {
        folder.write("x.ckpt", dictionary(&inside));
        folder.refuses(&["info", "x.ckpt"], &["x.ckpt", part]);
        folder.refuses(
            &["generate", "a dog", "--lora", "x.ckpt"],
            &["x.ckpt", part],
        );
    }
}

/// A thousand alphas, each a million times the same number.
#[test]
fn alphas_of_millions() {
    let folder = Folder::new();
    let alpha = tensor(b"J\0\0\x10\0\x85", b"K\x00\x85");
    let modules = (0..1000).flat_map(|i| {
        let name = |end: &str| text(format!("lora_unet_down_blocks_{i}.{end}").as_bytes());
        let (down, up) = (name("lora_down.weight"), name("lora_up.weight"));
        let matrix = tensor(b"K\x02K\x02\x86", b"K\x02K\x01\x86");
        [
            down,
            matrix.clone(),
            b"s".into(),
            up,
            matrix,
            b"s".into(),
            name("alpha"),
            alpha.clone(),
            b"s".into(),
        ]
        .concat()
    });
    folder.write("x.ckpt", dictionary(&modules.collect::<Vec<u8>>()));
    let output = folder.run(&["info", "x.ckpt"]);
    super::sound(&["info"], &output);
    assert!(output.status.success());
    folder.refuses(&["generate", "a dog", "--lora", "x.ckpt"], &["x.ckpt"]);
}
