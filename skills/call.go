package skills

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/skills/sandbox"
)

// Answer is the outcome of a call.
type Answer struct {
	Line   string         // one line of JSON, for the model
	Fault  *sandbox.Fault // nil: the skill answered
	Args   string         // SHA-256 of the arguments as canonical JSON, lower-case hex
	Result string         // SHA-256 of Line
	Log    []byte         // standard error of the guest, not shown to the model
	Usage  sandbox.Usage
}

// Kind returns the kind of the fault, or "ok".
func (a Answer) Kind() string {
	if a.Fault == nil {
		return "ok"
	}
	return string(a.Fault.Kind)
}

// Call calls a skill as the model requested it. It returns an error only if
// the context ends or this machine fails in a way that affects every call; any
// other failure is an answer.
func (s *Set) Call(ctx context.Context, c abi.ToolCall, assets []sandbox.Asset) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	args := c.Args
	if args == nil {
		args = map[string]any{}
	}
	input, err := json.Marshal(args)
	if err != nil {
		return faultAnswer(Answer{}, sandbox.Faultf(sandbox.Args, "arguments are not JSON: %v", err)), nil
	}
	a := Answer{Args: digest(input)}
	k, fault := s.find(c.Tool)
	if fault == nil {
		fault = k.check(input)
	}
	if fault != nil {
		return faultAnswer(a, fault), nil
	}
	named, fault := k.assets(args, assets)
	if fault != nil {
		return faultAnswer(a, fault), nil
	}
	reply, err := k.guest.Call(ctx, sandbox.Call{Input: input, Assets: named})
	a.Log, a.Usage = reply.Log, reply.Usage
	if err != nil {
		if !errors.As(err, &fault) {
			return a, fmt.Errorf("calling skill %s: %w", c.Tool, err)
		}
		return faultAnswer(a, fault), nil
	}
	line, fault := k.result(reply.Output)
	if fault != nil {
		return faultAnswer(a, fault), nil
	}
	a.Line, a.Result = line, digest([]byte(line))
	return a, nil
}

// Refused returns the answer to a call that is not made. args is canonical
// JSON, or the raw text of a malformed call.
func Refused(args []byte, f *sandbox.Fault) Answer { return faultAnswer(Answer{Args: digest(args)}, f) }

// find returns a skill that can be called.
func (s *Set) find(name string) (*skill, *sandbox.Fault) {
	k := s.skills[name]
	if k == nil {
		names := slices.Sorted(maps.Keys(s.skills))
		return nil, sandbox.Faultf(sandbox.Unknown, "unknown tool %q, available: %s", name, strings.Join(names, ", "))
	}
	var fault *sandbox.Fault
	if errors.As(k.info.Err, &fault) {
		return nil, fault
	}
	return k, nil
}

// check compares the arguments with the skill's inputs.
func (k *skill) check(input []byte) *sandbox.Fault {
	if len(input) > abi.MaxToolCall {
		return sandbox.Faultf(sandbox.Args, "arguments too long: got %d bytes, limit %d", len(input), abi.MaxToolCall)
	}
	v, err := schemas.ReadValue(input)
	if err == nil {
		err = k.in.Check(v)
	}
	if err != nil {
		return sandbox.Faultf(sandbox.Args, "invalid arguments of %s: %v", k.info.Name, err)
	}
	return nil
}

// assets returns the assets of the request that the arguments name.
func (k *skill) assets(args map[string]any, have []sandbox.Asset) ([]sandbox.Asset, *sandbox.Fault) {
	var out []sandbox.Asset
	for _, name := range slices.Sorted(maps.Keys(k.uris)) {
		values, ok := args[name].([]any)
		if !ok {
			values = []any{args[name]}
		}
		for _, v := range values {
			ref, ok := v.(string)
			if !ok { // an absent optional argument
				continue
			}
			ref = strings.TrimPrefix(ref, "#")
			i := slices.IndexFunc(have, func(a sandbox.Asset) bool { return a.Name == ref })
			if i < 0 {
				return nil, sandbox.Faultf(sandbox.Args, "%s is #%s, which the request does not have", name, ref)
			}
			if !slices.ContainsFunc(out, func(a sandbox.Asset) bool { return a.Name == ref }) {
				out = append(out, have[i])
			}
		}
	}
	return out, nil
}

// result checks the output of the guest and formats the line for the model.
func (k *skill) result(output []byte) (string, *sandbox.Fault) {
	if !utf8.Valid(output) {
		return "", sandbox.Faultf(sandbox.Result, "output of %s is not valid UTF-8", k.info.Name)
	}
	v, err := schemas.ReadValue(output)
	if err == nil {
		err = k.out.Check(v)
	}
	if err != nil {
		return "", sandbox.Faultf(sandbox.Result, "invalid result of %s: %v", k.info.Name, err)
	}
	values := v.(map[string]any) // its schema is that of an object
	values["ok"] = true
	line, err := abi.FormatToolResult(values)
	if err != nil {
		return "", sandbox.Faultf(sandbox.Result, "invalid result of %s: %v", k.info.Name, err)
	}
	return line, nil
}

// maxMessage limits the text of a fault for the model, in bytes: the guest may
// have written parts of it.
const maxMessage = 400

// faultAnswer returns the answer that reports a fault.
func faultAnswer(a Answer, f *sandbox.Fault) Answer {
	message := strings.ToValidUTF8(f.Message, "\ufffd")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	details := map[string]any{"kind": f.Kind, "message": message}
	if f.Kind == sandbox.Exit {
		details["code"] = f.Code
	}
	line, err := abi.FormatToolResult(map[string]any{"ok": false, "error": details})
	if err != nil {
		panic(err) // strings and a number always encode
	}
	a.Fault, a.Line, a.Result = f, line, digest([]byte(line))
	return a
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
