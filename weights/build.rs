//! Notes whether the toybox has its detector with it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(toybox_detector)");
    println!("cargo::rerun-if-changed=toybox/detector");
    if std::path::Path::new("toybox/detector/model.safetensors").exists() {
        println!("cargo::rustc-cfg=toybox_detector");
    }
}
