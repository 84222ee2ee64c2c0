def run(args):
    answer = ""
    try:
        with open(args["path"]) as f:
            answer = f.read()
    except Exception as e:
        answer = repr(e)
    try:
        import os
        answer += os.getenv(args["name"])
    except Exception as e:
        answer += repr(e)
    return {"answer": answer}
