package skilltest

import (
	"cmp"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// Hostile is a malicious guest.
type Hostile struct {
	Name    string
	Program sandbox.Program
	Assets  []sandbox.Asset
	// Ends are the kinds of fault that its call or preparation may end with. ""
	// stands for an answer, which must not contain Secret and must equal Answer
	// if that is set.
	Ends    []sandbox.Kind
	Answer  string
	Endless bool // it does not end by itself

	Executor sandbox.Executor // default: the executor of the corpus
}

// Secret is the value of an environment variable, and the content of a file
// whose path is in the environment, while a corpus runs.
const Secret = "mm-corpus-secret"

// short is the deadline of guests that do not end by themselves, in
// milliseconds.
const short = 200

// late is how long after its deadline a call may return.
const late = 50 * time.Millisecond

// Corpus runs hostile guests and logs how many were held. Lateness is an error
// only if MM_SANDBOX is set: on a busy machine it means nothing.
func Corpus(t *testing.T, e sandbox.Executor, needs modules.Allow, list []Hostile) {
	t.Setenv("MM_CORPUS", Secret)
	before, held := runtime.NumGoroutine(), 0
	var worst time.Duration
	for _, h := range list {
		if t.Run(h.Name, func(t *testing.T) {
			over := h.run(t, e, needs)
			worst = max(worst, over)
			if os.Getenv("MM_SANDBOX") != "" && over > late {
				t.Errorf("returned %v after its deadline", over)
			}
		}) {
			held++
		}
	}
	Settled(t, before)
	t.Logf("corpus: %d of %d guests held, the latest return %v after its deadline", held, len(list), worst.Round(100*time.Microsecond))
}

// run calls a guest and returns how late the call returned.
func (h Hostile) run(t *testing.T, e sandbox.Executor, needs modules.Allow) time.Duration {
	p := h.Program
	p.Name = cmp.Or(p.Name, "hostile")
	p.Limits.TimeoutMS = patience
	if h.Endless || slices.Contains(h.Ends, sandbox.Time) {
		p.Limits.TimeoutMS = short
	}
	if len(sandbox.Keys(p.Allow)) == 0 {
		p.Allow = needs
	}
	if h.Executor != nil {
		e = h.Executor
	}
	g, err := e.Prepare(t.Context(), p)
	if err != nil {
		h.judge(t, sandbox.Reply{}, err)
		return 0
	}
	defer g.Close()
	reply, err := g.Call(t.Context(), sandbox.Call{Input: []byte(`{}`), Assets: h.Assets})
	h.judge(t, reply, err)
	if sandbox.KindOf(err) != sandbox.Time {
		return 0
	}
	return max(0, reply.Usage.Time-time.Duration(p.Limits.TimeoutMS)*time.Millisecond)
}

func (h Hostile) judge(t *testing.T, reply sandbox.Reply, err error) {
	t.Helper()
	kind := sandbox.KindOf(err)
	if err != nil && kind == "" {
		t.Fatalf("failed: %v", err)
	}
	if !slices.Contains(h.Ends, kind) {
		t.Errorf("ended with %q (%v), want %q; output %q, log %q", kind, err, h.Ends, reply.Output, reply.Log)
	}
	for _, text := range []string{string(reply.Output), string(reply.Log)} {
		if strings.Contains(text, Secret) {
			t.Errorf("leaked %q", text)
		}
	}
	if err == nil && h.Answer != "" && strings.TrimSpace(string(reply.Output)) != h.Answer {
		t.Errorf("got %q, want %q", reply.Output, h.Answer)
	}
}
