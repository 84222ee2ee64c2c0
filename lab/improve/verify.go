package improve

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/builtin"
	"mm-abi.org/mm/skills/standard"
	"mm-abi.org/mm/train/dataset/synth"
)

// The marks of a program in an answer.
const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"
)

// calculator is the tool that executes programs.
const calculator = "sympy-lite"

// verifier executes programs in the sandbox.
type verifier struct{ guest sandbox.Guest }

func newVerifier(ctx context.Context) (*verifier, error) {
	e := builtin.Executor{Funcs: standard.Funcs()}
	g, err := e.Prepare(ctx, sandbox.Program{Name: calculator, Limits: modules.Effective{MemBytes: 32 << 20, TimeoutMS: 5000, OutputBytes: 1 << 16}})
	if err != nil {
		return nil, err
	}
	return &verifier{g}, nil
}

// call returns the arguments of an answer that is one call of the calculator, and
// nothing else.
func call(answer string) (args json.RawMessage, ok bool) {
	body, ok := strings.CutPrefix(strings.TrimSpace(answer), callOpen)
	body, closed := strings.CutSuffix(body, callClose)
	if !ok || !closed {
		return nil, false
	}
	var call struct {
		Tool string          `json:"tool"`
		Args json.RawMessage `json:"args"`
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&call) != nil || d.More() || call.Tool != calculator || !bytes.HasPrefix(call.Args, []byte("{")) {
		return nil, false
	}
	return call.Args, true
}

// run executes the call that an answer is; ok reports a result. The error is the
// context's.
func (v *verifier) run(ctx context.Context, answer string) (result json.RawMessage, ok bool, err error) {
	args, ok := call(answer)
	if !ok {
		return nil, false, nil
	}
	reply, err := v.guest.Call(ctx, sandbox.Call{Input: args})
	if err != nil {
		return nil, false, ctx.Err()
	}
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	ok = json.Unmarshal(reply.Output, &out) == nil && len(out.Result) > 0
	return out.Result, ok, nil
}

// right reports whether an answer is one call of the calculator whose result is
// that of the question. A program that states the result itself is none: a hint
// would teach it. The error is the context's.
func (v *verifier) right(ctx context.Context, e synth.Errand, answer string) (bool, error) {
	var args struct {
		Expr string `json:"expr"`
	}
	if text, ok := call(answer); !ok || json.Unmarshal(text, &args) != nil || strings.TrimSpace(args.Expr) == e.Answer {
		return false, nil
	}
	result, ok, err := v.run(ctx, answer)
	return ok && equal(result, []byte(e.Result)), err
}

// equal compares two JSON texts by their values.
func equal(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	one, err1 := json.Marshal(x)
	two, err2 := json.Marshal(y)
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}
