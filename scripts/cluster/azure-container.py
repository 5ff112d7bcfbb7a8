"""azure-container.py NAME: makes a container in the account of the AZURE_STORAGE_… variables."""

import base64
import hashlib
import hmac
import os
import sys
import urllib.request
from datetime import UTC, datetime

account, endpoint = os.environ["AZURE_STORAGE_ACCOUNT_NAME"], os.environ["AZURE_STORAGE_ENDPOINT"]
key = base64.b64decode(os.environ["AZURE_STORAGE_ACCOUNT_KEY"])
headers = {
    "x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
    "x-ms-version": "2021-08-06",
}
# An emulator has the account in its path, and so twice in what is signed.
resource = f"/{account}/{account}/{sys.argv[1]}\nrestype:container"
lines = ["PUT"] + [""] * 11 + [f"{name}:{value}" for name, value in headers.items()] + [resource]
signature = hmac.new(key, "\n".join(lines).encode(), hashlib.sha256).digest()
headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(signature).decode()}"
url = f"{endpoint}/{sys.argv[1]}?restype=container"
request = urllib.request.Request(url, method="PUT", headers=headers, data=b"")
request.add_header("Content-Length", "0")
request.add_unredirected_header("Content-type", "")
urllib.request.urlopen(request)
