package runner_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

// An entry of the audit log contains hashes of a call instead of its text, and can
// be written whatever name a model calls.
func TestEntry(t *testing.T) {
	call := func(name string, info skills.Info, fault *sandbox.Fault) runner.CallRecord {
		return runner.CallRecord{Call: talk.Call{Name: name}, Skill: info, Answer: skills.Answer{Args: "a", Result: "r", Fault: fault}}
	}
	info := skills.Info{Name: "sum", Version: "1.0.0", Digest: "sha256:d", Limits: modules.Effective{MemBytes: 1 << 20, TimeoutMS: 5}}
	log := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		record runner.CallRecord
		want   audit.Entry
	}{
		{call("sum", info, nil), audit.Entry{Action: "call", Ref: "sum@1.0.0", Digest: "sha256:d", Args: "a", Answer: "r", Limits: "1 MiB, 5 ms", Result: "ok"}},
		{call("sum", info, sandbox.Faultf(sandbox.Time, "slow")), audit.Entry{Action: "call", Ref: "sum@1.0.0", Digest: "sha256:d", Args: "a", Answer: "r", Limits: "1 MiB, 5 ms", Result: "time"}},
		{call(strings.Repeat("é", 50_000), skills.Info{}, sandbox.Faultf(sandbox.Unknown, "no")), audit.Entry{Action: "call", Ref: strings.Repeat("é", runner.MaxRef/2), Args: "a", Answer: "r", Result: "unknown"}},
		{call(strings.Repeat("a", runner.MaxRef), skills.Info{}, nil), audit.Entry{Action: "call", Ref: strings.Repeat("a", runner.MaxRef), Args: "a", Answer: "r", Result: "ok"}},
		{call(strings.Repeat("a", runner.MaxRef+1), skills.Info{}, nil), audit.Entry{Action: "call", Ref: strings.Repeat("a", runner.MaxRef), Args: "a", Answer: "r", Result: "ok"}},
		{call("x"+strings.Repeat("é", 50_000), skills.Info{}, nil), audit.Entry{Action: "call", Ref: "x" + strings.Repeat("é", runner.MaxRef/2-1), Args: "a", Answer: "r", Result: "ok"}},
	} {
		got := c.record.AuditEntry()
		if got.Ref != c.want.Ref || got.Digest != c.want.Digest || got.Args != c.want.Args || got.Answer != c.want.Answer || got.Limits != c.want.Limits || got.Result != c.want.Result || got.Action != c.want.Action {
			t.Errorf("%+v, want %+v", got, c.want)
		}
		if err := audit.Append(t.Context(), log, got); err != nil {
			t.Error(err)
		}
	}
	if r, err := audit.Check(log, ""); err != nil || r.Entries != 6 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Times without a value are left out.
func TestSummary(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		in   runner.Timings
		want string
	}{
		{runner.Timings{Load: 2 * ms, FirstToken: 3 * ms, Prompt: 5, Generated: 3, Generate: 1000 * ms}, "5 prompt + 3 generated tokens (end); load 2 ms, first token 3.0 ms, 2.0 tok/s; core on x"},
		{runner.Timings{Load: 2 * ms, FirstToken: 3 * ms, Prompt: 5, Generated: 1}, "5 prompt + 1 generated tokens (end); load 2 ms, first token 3.0 ms; core on x"},
		{runner.Timings{Load: 2 * ms, Prompt: 5}, "5 prompt + 0 generated tokens (end); load 2 ms; core on x"},
	} {
		a := runner.Answer{Stop: runtimes.StopEnd, Timings: c.in, Backends: []runner.Backend{{Part: "core", Engine: "x"}}}
		if got := a.Summary(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
