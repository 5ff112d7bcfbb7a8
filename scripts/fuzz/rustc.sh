#!/usr/bin/env bash
# The compiler of our own crates while fuzzing (Cargo's RUSTC_WORKSPACE_WRAPPER): the readers count the branches that
# they take, for libFuzzer to see, and an overflow is a panic. All else is built as always, so a build of the tests
# serves here as well.
rustc=$1
shift
case " $* " in
    *" --crate-name build_script_build "* | *"proc-macro"*) exec "$rustc" "$@" ;;
    *" --crate-name prepose"* | *" --crate-name fuzz "*) ;;
    *) exec "$rustc" "$@" ;;
esac
exec "$rustc" "$@" -Cdebug-assertions -Coverflow-checks -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares
