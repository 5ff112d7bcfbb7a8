"""Writes fixtures/spatialgen/ten.jsonl: ten prompts with ten questions each, all of our own making.

They have the form of SpatialGenEval's file, which has no licence and of which nothing is here. Right options stand at
A, B, C and D equally often.
"""

import json
import random
from pathlib import Path

TYPES = ["Object", "Attribute", "Position", "Orientation", "Layout", "Comparison", "Proximity", "Occlusion", "Motion",
         "Causal"]

# Each question: its text, the right option, and three wrong ones.
ITEMS = [
    ("yard", "A brown dog sits to the left of a white cat in a grassy yard, both turned to face a red car. Three cups stand in a row "
     "on a low bench behind them; the car is by far the largest thing, the cat sits closest to it, and the bench hides its front "
     "wheel. A bird flies up from a bowl that the dog has tipped over, and milk spreads on the grass.", [
         ("Which things are in the image?", "dog, cat, car", "dog, horse, car", "cow, cat, car", "dog, cat, bus"),
         ("What colour is the dog?", "brown", "black", "white", "grey"),
         ("Where is the dog relative to the cat?", "to the left", "to the right", "above", "below"),
         ("What do the two pets face?", "the vehicle", "the viewer", "each other", "the sky"),
         ("How are the three cups arranged?", "in a row", "in a stack", "in a circle", "in a triangle"),
         ("Which is the largest?", "car", "dog", "cat", "bird"),
         ("Which is nearest to the car?", "cat", "dog", "bird", "bowl"),
         ("What is partly hidden behind the bench?", "a wheel", "a tail", "a window", "a beak"),
         ("What does the bird do?", "flies up", "drinks", "sleeps", "walks"),
         ("Why is there liquid on the ground?", "something was tipped over", "it has rained", "a pipe leaks", "snow has melted")]),
    ("kitchen", "On a wooden kitchen table a yellow banana lies to the right of a red apple. A tall green bottle stands upright behind "
     "them, its label turned to the window, and four bowls form a square around the fruit. The bottle is the tallest, a small cup "
     "touches the apple, and a clock is half covered by the bottle. Steam rises from the cup, and its heat has fogged the glass.", [
         ("Which things are in the image?", "banana, apple, bottle", "banana, orange, bottle", "pizza, apple, bottle",
          "banana, apple, vase"),
         ("What colour is the bottle?", "green", "blue", "clear", "brown"),
         ("Where is the banana relative to the apple?", "to the right", "to the left", "above", "below"),
         ("Which way does the label face?", "to the window", "to the viewer", "down", "to the wall"),
         ("How are the bowls arranged?", "in a square", "in a line", "in a stack", "at random"),
         ("Which is the largest?", "bottle", "apple", "cup", "banana"),
         ("Which is nearest to the apple?", "cup", "bottle", "clock", "bowl"),
         ("What covers half of the clock?", "a bottle", "a curtain", "a bowl", "a hand"),
         ("What moves above the cup?", "steam", "smoke", "a bee", "nothing"),
         ("What has fogged the window?", "heat from a drink", "rain", "paint", "an open oven")]),
    ("street", "A blue bus waits to the left of a stop sign in a narrow street, its front pointing to the right. Five bicycles lean in a "
     "straight line along a wall, the bus is twice as long as the truck behind it, and a fire hydrant stands right beside the sign. "
     "The truck is partly hidden by the bus. A boy runs across, and water gushes from the hydrant and floods the road.", [
         ("Which things are in the image?", "bus, stop sign, fire hydrant", "train, stop sign, fire hydrant",
          "bus, clock, fire hydrant", "bus, stop sign, bench"),
         ("What colour is the bus?", "blue", "red", "yellow", "silver"),
         ("Where is the bus relative to the stop sign?", "to the left", "to the right", "above", "below"),
         ("Which way does the front of the bus point?", "right", "left", "to the viewer", "away"),
         ("How do the bicycles stand?", "in a straight line", "in a heap", "in a circle", "in pairs"),
         ("Which is the largest?", "bus", "truck", "bicycle", "stop sign"),
         ("Which is nearest to the stop sign?", "fire hydrant", "bus", "truck", "bicycle"),
         ("What hides a part of the truck?", "the bus", "a tree", "the wall", "a tent"),
         ("What does the boy do?", "runs", "sits", "climbs", "rides"),
         ("Why is the road under water?", "a hydrant is open", "a river has risen", "it rains", "a tank has burst")]),
    ("living room", "A black cat lies on a grey couch below a round clock, facing left towards a glowing tv. Six books are stacked on the "
     "floor; the couch is three times as wide as the chair, and a potted plant touches its arm. The plant hides the edge of the tv. "
     "A ball rolls off the rug, and a vase that it has hit lies in pieces.", [
         ("Which things are in the image?", "cat, couch, clock", "dog, couch, clock", "cat, bed, clock", "cat, couch, bicycle"),
         ("What shape is the clock?", "round", "square", "oval", "triangular"),
         ("Where is the cat relative to the clock?", "below", "above", "to the left", "to the right"),
         ("Which way does the cat face?", "left", "right", "up", "to the viewer"),
         ("How are the books arranged?", "in a stack", "in a row", "in a fan", "in a circle"),
         ("Which is the largest?", "couch", "chair", "cat", "clock"),
         ("Which is nearest to the couch?", "potted plant", "chair", "tv", "vase"),
         ("What hides the edge of the tv?", "leaves", "a lamp", "a curtain", "a shelf"),
         ("What rolls?", "a ball", "a wheel", "an apple", "a bottle"),
         ("What has broken the vase?", "something hit it", "it froze", "a cat bit it", "it was too full")]),
    ("harbour", "At dawn a white boat floats to the right of an orange boat, its bow towards the open sea. Seven birds sit in a V on the "
     "water; the lighthouse is the tallest thing, and a bicycle leans right against it. Fog hides its lamp. A horse trots "
     "along the quay, and its splashing hooves have wet the stones.", [
         ("Which things are in the image?", "boat, bicycle, horse", "boat, car, horse", "airplane, bicycle, horse", "boat, bicycle, cow"),
         ("What colour is the boat that points to the sea?", "white", "orange", "green", "black"),
         ("On which side of the other is the paler boat?", "right", "left", "above", "below"),
         ("Where does the bow of the paler boat point?", "to the open sea", "to the quay", "to the sky", "to the other boat"),
         ("How do the birds sit?", "in a V", "in a ring", "in two rows", "in a heap"),
         ("Which is the tallest?", "the lighthouse", "the mast", "the horse", "the bicycle"),
         ("What touches the lighthouse?", "a bicycle", "a horse", "a boat", "a net"),
         ("What hides the lamp?", "fog", "a sail", "a bird", "a roof"),
         ("How does the animal on the quay move?", "it trots", "it lies", "it jumps", "it swims"),
         ("What has wet the stones?", "splashing hooves", "a hose", "high waves", "rain")]),
    ("meadow", "A zebra stands to the left of a giraffe in a dry meadow, both looking right. Four rocks lie in a half circle before "
     "them; the giraffe is twice as tall as the zebra, an elephant is farthest away, and a bush covers the zebra's legs. A bear runs "
     "out of the trees, and dust clouds behind it where it has crossed the path.", [
         ("Which things are in the image?", "zebra, giraffe, elephant", "horse, giraffe, elephant", "zebra, giraffe, cow",
          "zebra, dog, elephant"),
         ("How is the ground?", "dry", "muddy", "snowy", "flooded"),
         ("Where is the zebra relative to the giraffe?", "to the left", "to the right", "above", "below"),
         ("Which way do both look?", "right", "left", "up", "to the viewer"),
         ("How do the rocks lie?", "in a half circle", "in a straight row", "in a pile", "in a cross"),
         ("How tall is the giraffe?", "twice the zebra", "as the zebra", "half the zebra", "ten times the zebra"),
         ("Which is farthest from the giraffe?", "elephant", "zebra", "bear", "bird"),
         ("What is covered by a bush?", "legs", "heads", "rocks", "a tail"),
         ("Which animal runs?", "a bear", "a zebra", "an elephant", "none"),
         ("Where does the dust come from?", "running feet", "a storm", "a car", "a fire")]),
    ("bedroom", "A brown teddy bear sits above a blue laptop on a made bed, its face turned to the door. Five pillows form a star; the "
     "bed is the largest thing, the lamp is nearest to the bed, and a blanket hides half of the laptop. A curtain blows inwards, "
     "and papers that it has swept from the desk cover the floor.", [
         ("Which things are in the image?", "teddy bear, laptop, bed", "teddy bear, tv, bed", "cat, laptop, bed",
          "teddy bear, laptop, couch"),
         ("What colour is the laptop?", "blue", "black", "silver", "red"),
         ("Where is the teddy bear relative to the laptop?", "above", "below", "to the left", "to the right"),
         ("What does the toy look at?", "the door", "the screen", "the ceiling", "the viewer"),
         ("What do the pillows form?", "a star", "a row", "a tower", "a circle"),
         ("Which is the largest?", "bed", "laptop", "teddy bear", "chair"),
         ("What is nearest to the bed?", "the lamp", "the desk", "the door", "the shelf"),
         ("What hides half of the screen?", "a blanket", "a pillow", "a book", "a hand"),
         ("What moves inwards?", "a curtain", "a door", "a chair", "a fan"),
         ("Why do papers lie on the floor?", "wind swept them down", "a cat tore them", "a shelf fell", "a printer threw them")]),
    ("cafe", "On a marble counter a chocolate cake stands to the left of a cheese pizza, and a handle of each cup points to the viewer. "
     "Eight cups form two rows; the pizza is wider than the cake, a vase stands closest to the pizza, and its roses hide the price "
     "list. A waiter pours coffee, and crumbs show where a slice has been cut out.", [
         ("Which things are in the image?", "cake, pizza, vase", "cake, sandwich, vase", "banana, pizza, vase", "cake, pizza, clock"),
         ("What is the counter made of?", "marble", "wood", "steel", "glass"),
         ("Where is the cake relative to the pizza?", "to the left", "to the right", "above", "below"),
         ("Where do the handles point?", "to the viewer", "to the left", "to the right", "to the wall"),
         ("How are the cups arranged?", "in two rows", "in a ring", "in a tower", "in one row"),
         ("Which is wider?", "the pizza", "the cake", "the vase", "both are equal"),
         ("Which is nearest to the pizza?", "vase", "cake", "cup", "bottle"),
         ("What hides the prices?", "flowers", "a machine", "a lamp", "a tray"),
         ("What does the waiter do?", "pours", "sweeps", "sings", "sits"),
         ("Why are there crumbs?", "a piece was cut out", "a bird ate", "a jar broke", "the oven is dirty")]),
    ("airport", "A silver airplane climbs above a yellow truck, its nose to the upper right. Six suitcases stand in a line by their "
     "height; the truck is smaller than the airplane, a motorcycle is nearest to the truck, and the hangar hides the "
     "airplane's tail. A dog chases a cap, and the wind of the engines has blown it from a worker's head.", [
         ("Which things are in the image?", "airplane, truck, motorcycle", "airplane, bus, motorcycle", "boat, truck, motorcycle",
          "airplane, truck, horse"),
         ("What colour is the truck?", "yellow", "green", "white", "orange"),
         ("Where is the airplane relative to the truck?", "above", "below", "to the left", "to the right"),
         ("Where does the nose of the airplane point?", "to the upper right", "straight down", "to the left", "to the viewer"),
         ("How do the suitcases stand?", "in a line by height", "in a heap", "in a circle", "in pairs"),
         ("Which is the smallest?", "motorcycle", "airplane", "truck", "bus"),
         ("Which is nearest to the truck?", "motorcycle", "airplane", "dog", "car"),
         ("What is hidden by the hangar?", "a tail", "a wing", "a wheel", "a ladder"),
         ("What does the dog do?", "chases something", "sleeps", "digs", "eats"),
         ("Why has the worker no cap?", "wind blew it off", "he gave it away", "it burnt", "it fell into water")]),
    ("shop window", "In a shop window a golden clock hangs above a striped chair that is turned to the wall. Nine apples form a pyramid; the "
     "chair is three times as high as the vase, a bottle stands closest to the vase, and a poster covers the chair's back. "
     "A toy horse rocks, and melted wax shows where a candle has stood too near to a heater.", [
         ("Which things are in the image?", "clock, chair, vase", "clock, couch, vase", "tv, chair, vase", "clock, chair, pizza"),
         ("What is the pattern of the chair?", "stripes", "dots", "squares", "flowers"),
         ("Where is the clock relative to the chair?", "above", "below", "to the left", "to the right"),
         ("Which way does the seat face?", "to the wall", "to the street", "up", "to the left"),
         ("What do the apples form?", "a pyramid", "a row", "a ring", "a cross"),
         ("Which is the largest?", "chair", "vase", "clock", "apple"),
         ("Which is nearest to the vase?", "bottle", "clock", "chair", "apple"),
         ("What covers the back of the seat?", "a poster", "a coat", "a cat", "a curtain"),
         ("What rocks?", "a toy", "a chair", "a boat", "a lamp"),
         ("Why has wax run down?", "it was too hot", "it was dropped", "it was cut", "it got wet")]),
]


def main():
    rng = random.Random(0)
    places = [place for place in range(4) for _ in range(25)]
    rng.shuffle(places)
    lines = []
    for number, (scene, prompt, asked) in enumerate(ITEMS, 1):
        questions, answers = [], []
        assert len(asked) == 10 and len(prompt.split()) in range(40, 80), (scene, len(asked), len(prompt.split()))
        for stem, right, *wrong in asked:
            assert len({right, *wrong}) == 4, stem
            place = places.pop()
            options = wrong[:place] + [right] + wrong[place:]
            listed = ", ".join(f"{letter}: {option}" for letter, option in zip("ABCDE", [*options, "None"]))
            questions.append(f"{stem}  Options: {listed}")
            answers.append("ABCD"[place])
        lines.append(json.dumps({"id": f"{number:06d}", "scene": scene, "prompt": prompt, "question_type": TYPES,
                                 "questions": questions, "answers": answers}, ensure_ascii=False))
    target = Path(__file__).resolve().parents[2] / "fixtures/spatialgen/ten.jsonl"
    target.parent.mkdir(exist_ok=True)
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
