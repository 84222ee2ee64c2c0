# Checks a hub with huggingface_hub: fetches what mm published to me/small into a
# folder, and publishes that folder as me/again. HF_ENDPOINT names the hub.
#
#   python hub.py DIR
import os
import sys

os.environ["HF_HUB_DISABLE_XET"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
import huggingface_hub

folder = sys.argv[1]
api = huggingface_hub.HfApi(token="hf_secret")
api.snapshot_download("me/small", local_dir=folder)
card = huggingface_hub.ModelCard.load(os.path.join(folder, "README.md"))
api.create_repo("me/again", exist_ok=True)
commit = api.upload_folder(repo_id="me/again", folder_path=folder, ignore_patterns=[".cache/*", ".cache/**"])
print(huggingface_hub.__version__, card.data.license, commit.oid)
