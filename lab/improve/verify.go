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

// right reports whether an answer is one call of the calculator whose result is
// that of the question. A program that states the result itself is none: a hint
// would teach it. The error is the context's.
func (v *verifier) right(ctx context.Context, e synth.Errand, answer string) (bool, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(answer), callOpen)
	body, closed := strings.CutSuffix(body, callClose)
	if !ok || !closed {
		return false, nil
	}
	var call struct {
		Tool string          `json:"tool"`
		Args json.RawMessage `json:"args"`
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if d.Decode(&call) != nil || d.More() || call.Tool != calculator || !bytes.HasPrefix(call.Args, []byte("{")) {
		return false, nil
	}
	var args struct {
		Expr string `json:"expr"`
	}
	if json.Unmarshal(call.Args, &args) != nil || strings.TrimSpace(args.Expr) == e.Answer {
		return false, nil
	}
	reply, err := v.guest.Call(ctx, sandbox.Call{Input: call.Args})
	if err != nil {
		return false, ctx.Err()
	}
	var out struct {
		Result json.RawMessage `json:"result"`
	}
	return json.Unmarshal(reply.Output, &out) == nil && equal(out.Result, []byte(e.Result)), nil
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
