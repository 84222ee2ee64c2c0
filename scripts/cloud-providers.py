"""Builds the Terraform providers google and azurerm from their Go modules into a
folder for `terraform init -plugin-dir`. A provider holds hundreds of services
and takes an hour to build; only the services of catalog/cloud are built, with
their schemas and checks unchanged.

usage: cloud-providers.py FOLDER [google|azurerm]
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HOST = "github.com/hashicorp/terraform-provider-"
# Name: version of the provider, version of the module, services.
PROVIDERS = {
    "google": ("8.0.0", "v1.20.1-0.20260828184646-f3721fb45fa3",
               "artifactregistry bigquery compute container dns iambeta kms pubsub resourcemanager storage"),
    "azurerm": ("5.2.0", "v1.44.1-0.20260824201233-fae580791926",
                "authorization compute containers keyvault managedidentity network privatedns resource servicebus storage"),
}


def read(path):
    with open(path) as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def prune_google(tree, services):
    """Keeps the imports that register the services."""
    path = tree + "/google/provider/provider_register_services.go"
    keep = lambda m: m[0] if m[1] in services else ""
    write(path, re.sub(r'\t_ "[^"]+/google/services/(\w+)"\n', keep, read(path)))


def clients_of(tree, services, fields, imports):
    """Returns the clients that the services and what they import refer to."""
    own = HOST + "azurerm/"
    seen, used = set(), set()
    queue = ["internal/provider", "internal/provider/framework", "internal/preflight/client"]
    queue += ["internal/services/" + s for s in services]
    while queue:
        folder = queue.pop()
        if folder in seen:
            continue
        seen.add(folder)
        for path in glob.glob(f"{tree}/{folder}/*.go"):
            registers = folder == "internal/provider" and os.path.basename(path).startswith("services")
            if path.endswith("_test.go") or folder == "internal/clients" or registers:
                continue
            text = read(path)
            queue += re.findall('"' + re.escape(own) + '([^"]+)"', text)
            for name in re.findall(r"(?=\b(?:[cC]lient|metadata|meta|[mc]|armClient|acc|azureClient)(?:\(\))?\)?\.([A-Z]\w+)\b)", text):
                if name in fields and name not in used:
                    used.add(name)
                    queue.append(imports[fields[name]].removeprefix(own))
    return used


def drop_imports(text):
    """Drops the imports of services that the rest of a file does not name."""
    end = text.index("\n)\n")
    def keep(line):
        m = re.match(r'^\t(?:(\w+) )?"([^"]+)"$', line)
        if not m or not (m[1] or "/services/" in m[2]):
            return True
        return re.search(r"\b" + re.escape(m[1] or m[2].split("/")[-1]) + r"\.", text[end:])
    return "\n".join(filter(keep, text[:end].split("\n"))) + text[end:]


def prune_azurerm(tree, services):
    """Keeps the registrations of the services and the clients that they use."""
    path = tree + "/internal/clients/client.go"
    text = read(path)
    imports = {m[1] or m[2].split("/")[-1]: m[2] for m in re.finditer(r'(?m)^\t(?:(\w+) )?"([^"]+)"$', text)}
    fields = dict(re.findall(r"(?m)^\t(\w+)\s+\*(\w+)\.\w+$", text))
    for name in fields.keys() - clients_of(tree, services, fields, imports):
        text = re.sub(rf"(?m)^\t{name}\s+\*\w+\.\w+\n", "", text)
        text = re.sub(rf"(?ms)^\tif client\.{name}, err = .*?^\t}}\n", "", text)
        text = re.sub(rf"(?m)^\tclient\.{name} = .*\n", "", text)
    write(path, drop_imports(text))
    keep = lambda m: m[0] if m[1] in services else ""
    for name in "services.go", "services_gen.go":
        path = tree + "/internal/provider/" + name
        write(path, drop_imports(re.sub(r"\t+(\w+)\.Registration\{\},\n", keep, read(path))))


def build(folder, name):
    version, module, services = PROVIDERS[name]
    answer = subprocess.run(["go", "mod", "download", "-json", f"{HOST}{name}@{module}"], check=True, capture_output=True)
    out = f"{folder}/registry.terraform.io/hashicorp/{name}/{version}/linux_amd64/terraform-provider-{name}_v{version}"
    with tempfile.TemporaryDirectory() as work:
        tree = work + "/" + name
        shutil.copytree(json.loads(answer.stdout)["Dir"], tree)
        subprocess.run(["chmod", "-R", "u+w", tree], check=True)
        {"google": prune_google, "azurerm": prune_azurerm}[name](tree, services.split())
        os.makedirs(os.path.dirname(out), exist_ok=True)
        subprocess.run(["go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "."], cwd=tree, check=True,
                       env=dict(os.environ, CGO_ENABLED="0"))
    print(out)


for name in sys.argv[2:] or PROVIDERS:
    build(os.path.abspath(sys.argv[1]), name)
