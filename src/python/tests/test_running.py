"""Callbacks, Ctrl-C, threads, forks."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import numpy
import prepose
import pytest
from conftest import PROMPT


def test_a_callback_sees_each_step(engine):
    seen = []

    def callback(step):
        seen.append((step.index, step.steps, step.pictures, step.sigma, step.latents, step.denoised, step.preview()))

    (picture,) = engine.generate(PROMPT, seed=9, steps=3, callback=callback)
    assert [one[:3] for one in seen] == [(0, 3, 1), (1, 3, 1), (2, 3, 1)]
    sigmas = [one[3] for one in seen]
    assert sigmas == sorted(sigmas, reverse=True)
    latents, denoised, preview = seen[-1][4:]
    assert latents.shape == denoised.shape and latents.dtype == numpy.float32 and latents.ndim == 4
    # In the last step the expected picture is nearly the picture.
    assert numpy.abs(numpy.asarray(preview[0]).astype(int) - picture.array).mean() < 2


def test_what_a_callback_raises_is_raised(engine):
    class Enough(Exception):
        pass

    steps = []

    def callback(step):
        steps.append(step.index)
        if step.index == 1:
            raise Enough("that will do")

    with pytest.raises(Enough, match="that will do"):
        engine.generate(PROMPT, seed=9, steps=10, callback=callback)
    assert steps == [0, 1]
    assert len(engine.generate("a dog", seed=1, steps=1)) == 1


def test_a_callback_cannot_ask_the_engine_again(engine):
    with pytest.raises(prepose.EngineError, match="a callback cannot ask it for others"):
        engine.generate("a dog", seed=1, steps=2, callback=lambda step: engine.generate("a cat", steps=1))


def test_other_threads_go_on(engine):
    """The lock of the interpreter is free while a step is taken."""
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            done.wait(0.001)

    thread = threading.Thread(target=count)
    before = []
    thread.start()
    try:
        engine.generate(PROMPT, seed=1, steps=6, callback=lambda step: before.append(counted[0]))
    finally:
        done.set()
        thread.join()
    assert before == sorted(before) and before[-1] > before[0]


def test_threads_take_turns(engine):
    pictures = {}

    def make(seed):
        pictures[seed] = engine.generate("a dog", seed=seed, steps=2)[0].array.copy()

    threads = [threading.Thread(target=make, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, array in pictures.items():
        assert numpy.array_equal(array, engine.generate("a dog", seed=seed, steps=2)[0].array)
    assert sorted(pictures) == [0, 1, 2]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_ends_it_after_the_step():
    program = """
        import os, signal, prepose
        engine = prepose.Engine(device="flex")
        steps = []
        def callback(step):
            steps.append(step.index)
            if step.index == 1:
                os.kill(os.getpid(), signal.SIGINT)
        try:
            engine.generate("a dog", seed=1, steps=999, callback=callback)
        except KeyboardInterrupt:
            print("interrupted", len(steps) < 5)
        print(len(engine.generate("a dog", seed=1, steps=1)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["interrupted", "True", "1"], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_not_after_a_fork():
    program = """
        import os, prepose
        engine = prepose.Engine(device="flex")
        child = os.fork()
        if child == 0:
            try:
                engine.generate("a dog", seed=1, steps=1)
            except prepose.EngineError as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "7", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_nothing_is_opened_after_a_fork():
    program = """
        import os, signal, numpy, prepose
        picture = numpy.zeros((64, 64, 3), "u1")
        checker = prepose.Checker(device="flex")
        uses = [
            lambda: prepose.Engine(device="flex"),
            lambda: prepose.Checker(device="flex"),
            lambda: checker.detect(picture),
            lambda: checker.check(picture, prompt="a dog to the left of a cat"),
            lambda: prepose.Judge(device="flex").ask(picture, prompt="a dog"),
            lambda: prepose.score("pse", [{"prompt": "a dog"}], masks="sam.pth", device="flex"),
            lambda: prepose.score("pse", [{"prompt": "a dog"}], depth="depth.pth", device="flex"),
        ]
        child = os.fork()
        if child == 0:
            # Ends one that waits for threads that it does not have.
            signal.alarm(60)
            refused = 0
            for use in uses:
                try:
                    use()
                except prepose.EngineError as error:
                    refused += "forked" in str(error) and "spawn" in str(error)
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "7", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_networks_to_score_with_are_not_used_after_a_fork():
    program = """
        import os, signal, prepose
        def score():
            prepose.score("pse", [{"prompt": "a dog"}], masks="nowhere", device="flex")
        try:
            score()
        except prepose.CheckpointError as error:
            assert "nowhere" in str(error)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                score()
            except prepose.EngineError as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "7", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_open_their_own():
    program = """
        import os, signal, prepose
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                picture = prepose.Engine(device="flex").generate("a dog", seed=1, steps=1)[0]
                checked = prepose.Checker(device="flex").check(picture, prompt="a dog and a cat")
                os._exit(6 + len(checked))
            children.append(child)
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[7, 7]", done.stderr


def test_engines_are_not_pickled(engine):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(engine)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_the_command_ends_on_ctrl_c(tmp_path):
    words = ["generate", "a dog", "--steps", "999", "--device", "flex", "-o", str(tmp_path / "never.png"), "-v"]
    running = subprocess.Popen([sys.executable, "-m", "prepose", *words], stderr=subprocess.PIPE, text=True)
    # Once the networks are loaded it listens.
    for line in running.stderr:
        if "loaded in" in line:
            break
    running.send_signal(signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130, said
    assert not list(tmp_path.iterdir())
