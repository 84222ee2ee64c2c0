# The skill NAME: run is called with the arguments of module.yaml's inputs and
# gives its outputs. open("/in/img0") reads an asset, print writes for people.


def run(args):
    words = args["text"].split()
    return {"result": len(words)}
