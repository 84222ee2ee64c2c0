package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules/seed"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

var exporters = []assemble.Exporter{quantize.Exporter{}}

const coreGraph = "core:\n  llm: {ref: core-llm@3.1.0, d_model: 32}\n"

// core writes a small core module and adds it to the store.
func (w *world) core(dir string, signed bool) *workspace.Added {
	w.Helper()
	ctx := context.Background()
	if err := seed.Write(dir, seed.Options{Type: abi.Core, Name: "core-llm", Version: "3.1.0", DModel: 32}); err != nil {
		w.Fatal(err)
	}
	ws := w.open(workspace.Options{})
	var signer assemble.Signer
	if signed {
		s, err := ws.Signer("", noPassword)
		if err != nil {
			w.Fatal(err)
		}
		signer = s
	}
	added, err := ws.AddModule(ctx, dir, signer, true)
	if err != nil {
		w.Fatal(err)
	}
	return added
}

// The modules of a graph are admitted as anything else is: signatures, strict
// trust, and every byte, whatever is skipped.
func TestModulesOfAGraph(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.write("work/g.graph.yaml", coreGraph)
	graph := "work/g.graph.yaml"
	w.core("seeded", false)
	run := func(claim workspace.Claim) error {
		t.Helper()
		ws := w.open(workspace.Options{Dir: workspace.Anchor(graph)})
		r, err := ws.Assemble(ctx, assemble.Options{Graph: graph, Exporters: exporters}, workspace.ResolveOptions{Claim: claim})
		if err != nil {
			return err
		}
		v, err := ws.Made(ctx, graph, r)
		if err != nil {
			return err
		}
		b, err := v.Build(ctx, "")
		if err == nil && b.Assembly.Core.Name != "core-llm" {
			t.Errorf("core %q", b.Assembly.Core.Name)
		}
		return err
	}
	skip := workspace.Claim{Skip: true}
	w.wants("unsigned", run(workspace.Claim{}), string(sign.Unsigned))
	w.wants("skipped", run(skip), "")
	if !w.heard("UNVERIFIED") {
		t.Error("nobody was told")
	}
	trust := filepath.Join(w.home, "trust.yaml")
	w.trust(trust, "strict: true\n", "**", 0)
	w.wants("strict", run(skip), string(diag.SkippedVerify))
	w.trust(trust, "", "**", 0)

	// The project's trust file applies in every subfolder.
	w.core("again", true)
	w.wants("signed", run(workspace.Claim{}), "")
	w.write("work/mm.yaml", "trust: t.yaml\n")
	w.write("work/t.yaml", "version: 1\nstrict: true\nrules: []\n")
	w.wants("the project trusts nobody", run(workspace.Claim{}), string(sign.NoRule))
	t.Chdir("work")
	graph = "g.graph.yaml"
	w.wants("the same from within", run(workspace.Claim{}), string(sign.NoRule))
	t.Chdir("..")
	graph = "work/g.graph.yaml"
	if err := os.Remove("work/mm.yaml"); err != nil {
		t.Fatal(err)
	}

	w.flip(w.store(), "GGUF")
	w.wants("flipped", run(workspace.Claim{}), string(sign.Tampered))
	w.wants("flipped and skipped", run(skip), string(sign.Tampered))
}

// Modules come from registries, judged before their bytes are fetched, and
// from layouts.
func TestModulesFromElsewhere(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	w.core("seeded", true)
	if _, err := w.open(workspace.Options{}).Push(ctx, "core-llm:3.1.0", reg.host+"/team/core-llm", workspace.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(workspace.Options{}).Push(ctx, "core-llm:3.1.0", "oci:usb", workspace.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, settings := range []string{"registries: [" + reg.host + "/team]\n", "layouts: ['" + filepath.Join(w.dir, "usb") + "']\n"} {
		away := newWorld(t)
		away.write("g.graph.yaml", coreGraph)
		away.write("mm.yaml", settings)
		reg.asked()
		away.trust(filepath.Join(away.home, "trust.yaml"), "", "**", 1)
		_, err := away.open(workspace.Options{}).Lock(ctx, "g.graph.yaml", workspace.LockOptions{})
		away.wants("a stranger's", err, string(sign.UnknownKey))
		if n := reg.asked(); n > 3 {
			t.Errorf("fetched %d blobs of an untrusted module", n)
		}
		away.trust(filepath.Join(away.home, "trust.yaml"), "", "**", 0)
		got, err := away.open(workspace.Options{}).Lock(ctx, "g.graph.yaml", workspace.LockOptions{})
		if err != nil || len(got.Lock.Modules) != 1 || len(got.Lock.Modules[0].SignedBy) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		away.flip(away.store(), "GGUF")
		_, err = away.open(workspace.Options{}).Assemble(ctx, assemble.Options{Graph: "g.graph.yaml", Exporters: exporters}, workspace.ResolveOptions{Claim: workspace.Claim{Skip: true}, Locked: true})
		away.wants("a flipped blob that was there", err, string(sign.Tampered))
	}
	away := newWorld(t)
	away.write("g.graph.yaml", coreGraph)
	away.write("mm.yaml", "registries: ["+reg.host+"/team]\n")
	_, err := away.open(workspace.Options{Offline: true}).Lock(ctx, "g.graph.yaml", workspace.LockOptions{})
	away.wants("offline", err, string(diag.Offline))
	away.write("mm.yaml", "layouts: [none]\n")
	_, err = away.open(workspace.Options{}).Lock(ctx, "g.graph.yaml", workspace.LockOptions{})
	away.wants("no layout", err, string(diag.SourceFailed))
}

// Up-to-date files are not written, so a checkout may be read-only; a stale
// one is named.
func TestLock(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.write("work/g.graph.yaml", coreGraph)
	if err := seed.Write("work/modules/core-llm", seed.Options{Type: abi.Core, Name: "core-llm", Version: "3.1.0", DModel: 32}); err != nil {
		t.Fatal(err)
	}
	lock := func(check bool) error {
		t.Helper()
		_, err := w.open(workspace.Options{Dir: "work"}).Lock(ctx, "work/g.graph.yaml", workspace.LockOptions{Check: check})
		return err
	}
	w.wants("check before", lock(true), string(diag.LockStale))
	w.wants("lock", lock(false), "")
	w.wants("check after", lock(true), "")
	compat, err := os.ReadFile("work/compat.csv")
	if err != nil {
		t.Fatal(err)
	}
	w.write("work/compat.csv", strings.Replace(string(compat), "fits", "tried", 1))
	w.wants("another table", lock(true), string(diag.CompatWritten))
	if have, err := os.ReadFile("work/compat.csv"); err != nil || string(have) == string(compat) {
		t.Errorf("--check wrote the table: %v", err)
	}
	w.write("work/compat.csv", string(compat))
	before, err := os.Stat("work/g.lock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.wants("lock again", lock(false), "")
	after, err := os.Stat("work/g.lock.yaml")
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the lock was written anew: %v", err)
	}
	if os.Geteuid() != 0 {
		if err := os.Chmod("work", 0o555); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod("work", 0o755)
		w.wants("read-only", lock(false), "")
	}
	if err := os.Remove("work/g.lock.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("work/g.lock.yaml", 0o755); err != nil {
		t.Fatal(err)
	}
	w.write("work/g.lock.yaml/x", "")
	if err := lock(false); err == nil || !strings.Contains(err.Error(), "g.lock.yaml") {
		t.Errorf("%v", err)
	}
	_, err = w.open(workspace.Options{}).Lock(ctx, "none.graph.yaml", workspace.LockOptions{})
	w.wants("no graph", err, string(diag.Unreadable))
	w.write("huge.graph.yaml", strings.Repeat("#", 2<<20))
	_, err = w.open(workspace.Options{}).Lock(ctx, "huge.graph.yaml", workspace.LockOptions{})
	w.wants("huge graph", err, string(diag.TooLarge))
}

// A lock with merge conflicts keeps the pins of both sides, mm lock solves the others, and
// --locked and --check refuse it.
func TestLockConflicts(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.write("work/g.graph.yaml", coreGraph+"skills:\n  - {ref: tool@>=1.0}\nruntime:\n  sandbox: {ref: sandbox@0.3.0}\n")
	for dir, opt := range map[string]seed.Options{
		"core-llm": {Type: abi.Core, Name: "core-llm", Version: "3.1.0", DModel: 32},
		"old":      {Type: abi.Skill, Name: "tool", Version: "1.0.0"},
		"sandbox":  {Type: abi.Sandbox, Name: "sandbox", Version: "0.3.0"},
	} {
		if err := seed.Write("work/modules/"+dir, opt); err != nil {
			t.Fatal(err)
		}
	}
	at := w.open(workspace.Options{Dir: "work"})
	read := func() string {
		text, err := os.ReadFile("work/g.lock.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	lock := func(opt workspace.LockOptions) (*workspace.Locked, error) {
		return at.Lock(ctx, "work/g.graph.yaml", opt)
	}
	if _, err := lock(workspace.LockOptions{}); err != nil {
		t.Fatal(err)
	}
	ours := read()
	if err := seed.Write("work/modules/new", seed.Options{Type: abi.Skill, Name: "tool", Version: "1.1.0"}); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(workspace.LockOptions{}); err != nil || read() != ours {
		t.Fatalf("the pin was not kept: %v", err)
	}
	if _, err := lock(workspace.LockOptions{ResolveOptions: workspace.ResolveOptions{Update: []string{"*"}}}); err != nil || read() == ours {
		t.Fatalf("the pin was kept: %v", err)
	}
	conflict := "<<<<<<< HEAD\n" + ours + "=======\n" + read() + ">>>>>>> other\n"
	w.write("work/g.lock.yaml", conflict)
	_, err := lock(workspace.LockOptions{Check: true})
	w.wants("check", err, string(diag.Conflicted))
	_, err = lock(workspace.LockOptions{ResolveOptions: workspace.ResolveOptions{Locked: true}})
	w.wants("locked", err, string(diag.Conflicted))
	got, err := lock(workspace.LockOptions{})
	if err != nil || len(got.Diagnostics) == 0 || !strings.Contains(got.Diagnostics[0].Detail, "kept the 2 pins") || !strings.Contains(read(), "version: 1.1.0") {
		t.Errorf("%+v, %v\n%s", got, err, read())
	}
	w.write("work/g.lock.yaml", conflict[:len(conflict)-20])
	_, err = lock(workspace.LockOptions{})
	w.wants("an open conflict", err, string(diag.Conflicted))
}

func TestAddModule(t *testing.T) {
	w := newWorld(t)
	if a := w.core("seeded", true); a.Ref != "core-llm:3.1.0" || a.Size == 0 {
		t.Errorf("%+v", a)
	}
	_, err := w.admit(workspace.Options{}, "core-llm:3.1.0", workspace.Claim{})
	w.wants("signed", err, "")
	if _, err := w.open(workspace.Options{}).AddModule(context.Background(), "none", nil, false); err == nil {
		t.Error("added what is not there")
	}
	for date, want := range map[string]bool{"-5": false, "-1": false, "0": true, fmt.Sprint(int64(workspace.MaxDate)): true, fmt.Sprint(int64(workspace.MaxDate) + 1): false} {
		t.Setenv("SOURCE_DATE_EPOCH", date)
		if _, err := workspace.SourceDate(); (err == nil) != want {
			t.Errorf("SOURCE_DATE_EPOCH=%s: %v", date, err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if d, err := workspace.SourceDate(); err != nil || d.Unix() != 86400 {
		t.Errorf("%v, %v", d, err)
	}
}
