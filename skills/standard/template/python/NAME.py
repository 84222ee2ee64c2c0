# The skill NAME: run is called with the arguments of module.yaml's inputs and
# returns its outputs. open("/in/img0") reads an asset, print writes to the log.


def run(args):
    words = args["text"].split()
    return {"result": len(words)}
