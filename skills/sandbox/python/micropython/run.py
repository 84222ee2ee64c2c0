# A program of a model is run for what it leaves in result.
def run(args):
    scope = {}
    exec(args["program"], scope)
    return {"result": scope.get("result")}
