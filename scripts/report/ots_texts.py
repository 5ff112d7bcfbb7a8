"""Writes docs/experiments/ots-texts.md: fifty prompts with the texts that are derived from them.

    python scripts/report/ots_texts.py target/release/prepose

People read the page; a test (`tests/lib/scenes/neutral.rs`) holds prepose to it.
"""

import json
import pathlib
import subprocess
import sys

PROMPTS = """
a boy is chasing a girl
a man and a woman in a park
a cat is standing and a dog is sitting
A physician is waving and a nurse is saluting, side by side
One male architect kneeling on one knee and one goat gentle step.
One male childcare worker jumping off the ground and one female musician dancing energetically.
One chicken is stretching its neck tall and one parrot is looking upward
one chair and one drum.
One female police officer waving openly and one goat ears forward.
One sheep is raising one paw slightly off the ground and one pig is sniffing the ground attentively.
One pig has ears pointed straight forward and one sheep is lowering its head slightly.
One male counselor waving openly and one female nurse saluting with right hand.
One desk occupied and one boat clean.
The parrot is spreading its wings and the chicken is folding its wings, full body shot, horizontal composition
The client is pointing at the chef.
The laptop is intact and the monitor is cracked
The dog is standing and the pig is lying down.
The photographer is looking up and the model is looking down.
The bottle is chipped and the plate is intact.
The hamster is covered in dirt and the hedgehog is clean and groomed.
The table is tilted and the bookshelf is upright
The monitor is cracked and the cell phone is intact
The camel is looking up and the horse is looking down.
The chef is patting the model on the shoulder.
The desk is covered with items and the chair is empty.
The hedgehog is stretching its body and the rabbit is curling into a ball.
a dog to the left of a cat
A photo of a cake to the left of a bed.
a bird above and to the right of a bench
a bicycle in front of a car
a cat next to a laptop on a wooden floor
a dog on the left and a cat on the right
two dogs to the right of a red car
A clock is above a couch.
To the left of a bus is a truck.
a man with a hat and a woman with a scarf
a man with a hat and a woman
a man and a woman with an umbrella
a dog is sitting to the left of a cat in a park
a girl walking a dog on a beach
a dog is playing with a cat, oil painting
a woman is being followed by a sheep
a cat on a chair and a dog on a table
two dogs are running and a cat is sleeping
There is a cat and a dog in a kitchen
A teacher and a student are reading in a library
a photo of a bottle and a pizza.
a guitar and a violin, one above the other
One female chef is instructing one male waiter.
One horse and one fox nuzzling.
""".strip().splitlines()

HEAD = """# Reversed and neutral texts

Fifty prompts with what prepose derives from them: the text that mentions the two in the other order and says the same
of each (`swapped-order-WHEN`, and *reverse* in OTS-Bench), and the text that names neither and has no order
(`delayed-order-WHEN`). The first 26 are those that the text and figures 2 and 4 to 8 of [Order Is Not
Layout](https://arxiv.org/abs/2603.03714) print and that name two subjects; the others are ours. `prepose parse` shows
the same of any prompt, [Prompts](../prompts.md#neutral-prompts) has the rules, and a file of prompts may give its own
[texts](../suites.md#your-own-prompts) as `neutral` and `reverse`.

| prompt | reversed | neutral |
| --- | --- | --- |
"""

TAIL = """
```sh
python scripts/report/ots_texts.py target/release/prepose
```

A person has read them. What they are not happy with:

* A state that figure 4 says without "is" stays so: "one ears forward" is no better English than "one goat ears
  forward".
* What is said of one after the other's setting goes with it: "sitting in a park" moves as a whole, unless a relation
  stands between them.
* "Two living beings" is what a person and an animal have in common. Models know the word less well than "animals"; a
  set may give a better one.
* An action in the other voice ("is being chased by") is longer than the one it stands for, and names the same two with
  the same roles; the paper's figures have reversed prompts in the active voice only, of which the pairs are not told.
"""


def main() -> None:
    program = sys.argv[1]
    rows = []
    for prompt in PROMPTS:
        said = subprocess.run(
            [program, "parse", "--json", prompt], check=True, capture_output=True, text=True
        )
        parsed = json.loads(said.stdout)
        rows.append(f"| {prompt} | {parsed['swapped']} | {parsed['neutral']} |\n")
    page = pathlib.Path(__file__).parents[2] / "docs/experiments/ots-texts.md"
    page.write_text(HEAD + "".join(rows) + TAIL)


if __name__ == "__main__":
    assert len(PROMPTS) == 50
    main()
