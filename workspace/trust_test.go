package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/home"
	"mm-abi.org/mm/workspace/trust"
)

// Who decides: the user; with a project's file both; once that was accepted,
// it alone; or the keys and files of the command line.
func TestWhoDecides(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s := w.store()
	w.sign(s, w.pack(s, build("ours", "1.0.0", ""), "ours:1.0.0"), 0)
	w.sign(s, w.pack(s, build("theirs", "1.0.0", ""), "theirs:1.0.0"), 1)
	both := w.pack(s, build("both", "1.0.0", ""), "both:1.0.0")
	w.sign(s, both, 0)
	w.sign(s, both, 1)
	project := filepath.Join(w.dir, "work", "trust.yaml")
	w.write("work/mm.yaml", "trust: trust.yaml\n")
	at := func(ref string) error {
		t.Helper()
		_, err := w.admit(workspace.Options{Dir: "work/below"}, ref, workspace.Claim{})
		return err
	}
	unknown, rule := string(sign.UnknownKey), string(sign.NoRule)
	if err := os.MkdirAll("work/below", 0o755); err != nil {
		t.Fatal(err)
	}

	if err := at("ours:1.0.0"); err == nil || !strings.Contains(err.Error(), "missing trust file") {
		t.Errorf("a project's trust file that is missing: %v", err)
	}
	w.trust(project, "", "**", 1) // the project trusts another key
	w.wants("widened", at("theirs:1.0.0"), unknown)
	if h := hint(at("theirs:1.0.0")); !strings.Contains(h, "mm trust accept "+project) {
		t.Errorf("hint %q", h)
	}
	w.wants("narrowed", at("ours:1.0.0"), unknown)
	w.wants("both agree", at("both:1.0.0"), "")
	v, err := w.admit(workspace.Options{Dir: "work"}, "both:1.0.0", workspace.Claim{})
	if err != nil || len(v.Keys) != 2 || !slices.Equal(v.Decided, []string{filepath.Join(w.home, "trust.yaml"), project}) {
		t.Errorf("%+v, %v", v, err)
	}
	w.wants("elsewhere", func() error { _, err := w.admit(workspace.Options{}, "ours:1.0.0", workspace.Claim{}); return err }(), "")

	// Accepted, it decides alone, as long as it stays as it is.
	if _, err := w.open(workspace.Options{}).Accept(ctx, project); err != nil {
		t.Fatal(err)
	}
	w.wants("accepted", at("theirs:1.0.0"), "")
	w.wants("accepted, ours", at("ours:1.0.0"), unknown)
	text, err := os.ReadFile(project)
	if err != nil {
		t.Fatal(err)
	}
	w.write(project, string(text)+"# changed\n")
	w.wants("changed", at("theirs:1.0.0"), unknown)
	w.write(project, string(text))
	w.wants("as it was", at("theirs:1.0.0"), "")
	w.write(filepath.Join(w.dir, "copy", "trust.yaml"), string(text))
	w.write("copy/mm.yaml", "trust: trust.yaml\n")
	_, err = w.admit(workspace.Options{Dir: "copy"}, "theirs:1.0.0", workspace.Claim{})
	w.wants("the same at another place", err, unknown)

	// A separate key file is part of it.
	w.write("work/key.pub", string(pairs[0]().public))
	w.write(project, "version: 1\nrules: [{match: '**', keys: [k]}]\nkeys: {k: {file: key.pub}}\n")
	if _, err := w.open(workspace.Options{}).Accept(ctx, project); err != nil {
		t.Fatal(err)
	}
	w.wants("key beside", at("ours:1.0.0"), "")
	w.write("work/key.pub", string(pairs[1]().public))
	w.wants("another key beside", at("theirs:1.0.0"), unknown)

	// Strict if either is.
	w.trust(project, "strict: true\n", "**", 0)
	_, err = w.admit(workspace.Options{Dir: "work"}, "ours:1.0.0", workspace.Claim{Skip: true})
	w.wants("strict project", err, string(diag.SkippedVerify))
	w.trust(project, "", "**", 0)
	w.trust(filepath.Join(w.home, "trust.yaml"), "strict: true\n", "**", 0)
	for _, accept := range []bool{false, true} {
		if accept {
			if _, err := w.open(workspace.Options{}).Accept(ctx, project); err != nil {
				t.Fatal(err)
			}
		}
		_, err = w.admit(workspace.Options{Dir: "work"}, "ours:1.0.0", workspace.Claim{Skip: true})
		w.wants("strict user", err, string(diag.SkippedVerify))
	}

	// Mirrors of a project's file do not count until it is accepted.
	w.tag(s, both, "mirror:1.0.0")
	w.trust(project, "mirrors: {local/mirror: both}\n", "**", 0)
	w.wants("mirror", at("mirror:1.0.0"), string(diag.IdentityDiffers))
	if _, err := w.open(workspace.Options{}).Accept(ctx, project); err != nil {
		t.Fatal(err)
	}
	w.wants("accepted mirror", at("mirror:1.0.0"), "")

	// A file or keys of the command line decide alone.
	w.trust("t.yaml", "", "local/theirs", 1)
	_, err = w.admit(workspace.Options{Dir: "work", Trust: "t.yaml"}, "theirs:1.0.0", workspace.Claim{})
	w.wants("--trust", err, "")
	_, err = w.admit(workspace.Options{Dir: "work", Trust: "t.yaml"}, "ours:1.0.0", workspace.Claim{})
	w.wants("--trust, another repository", err, rule)
	_, err = w.admit(workspace.Options{Dir: "work", Keys: []string{"stranger.pub"}}, "theirs:1.0.0", workspace.Claim{})
	w.wants("--key", err, "")
	_, err = w.admit(workspace.Options{Keys: []string{"stranger.pub"}}, "ours:1.0.0", workspace.Claim{})
	w.wants("--key, another", err, unknown)
	_, err = w.admit(workspace.Options{Keys: []string{"none.pub"}}, "ours:1.0.0", workspace.Claim{})
	w.wants("--key, none there", err, string(diag.BadTrust))
}

// A first refusal has a way out.
func TestHints(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	w.sign(s, w.pack(s, build("theirs", "1.0.0", ""), "theirs:1.0.0"), 1)
	_, err := w.admit(workspace.Options{}, "theirs:1.0.0", workspace.Claim{})
	if !strings.Contains(hint(err), "mm trust add KEY.pub --match 'local/theirs'") || !strings.Contains(err.Error(), "trust.yaml") {
		t.Errorf("%v; hint %q", err, hint(err))
	}
	if err := os.Remove(filepath.Join(w.home, "trust.yaml")); err != nil {
		t.Fatal(err)
	}
	_, err = w.admit(workspace.Options{}, "theirs:1.0.0", workspace.Claim{})
	w.wants("nobody trusted", err, string(sign.NoRule))
	if h := hint(err); !strings.Contains(h, "mm keys generate") || !strings.Contains(h, "--sign default") {
		t.Errorf("hint %q", h)
	}
	if f := w.open(workspace.Options{}).Examine(context.Background(), workspace.ExamineOptions{}); f[6].State != "missing" {
		t.Errorf("%+v", f)
	}
	w.write(filepath.Join(w.home, "trust.yaml"), "version: 1\ndefault: warn\n")
	if _, err = w.admit(workspace.Options{}, "theirs:1.0.0", workspace.Claim{}); err != nil || !w.heard("warning") {
		t.Errorf("%v, messages %v", err, w.printed)
	}
}

// Faults of a trust file have a position; the input is bounded.
func TestTrustFaults(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	for what, c := range map[string]struct{ text, code string }{
		"bad pattern": {"version: 1\nrules:\n  - {match: 'a//b', keys: [k]}\n", string(diag.BadTrust)},
		"no key":      {"version: 1\nrules:\n  - {match: '**', keys: [k]}\n", string(diag.BadTrust)},
		"key file":    {"version: 1\nrules: []\nkeys: {k: {file: none.pub}}\n", string(diag.BadTrust)},
		"unknown key": {"version: 1\nnope: 1\n", string(diag.UnknownKey)},
		"large":       {"version: 1\n#" + strings.Repeat("x", 2<<20), string(diag.TooLarge)},
	} {
		w.write("t.yaml", c.text)
		_, err := w.admit(workspace.Options{Trust: "t.yaml"}, "x", workspace.Claim{})
		if code(err) == string(diag.NoArtifact) { // Find comes first
			_, err = w.open(workspace.Options{}).Accept(ctx, "t.yaml")
		}
		w.wants(what, err, c.code)
	}
	if _, err := w.open(workspace.Options{}).Accept(ctx, "none.yaml"); err == nil {
		t.Error("a file that is not there was accepted")
	}
	key := trust.Key{PEM: string(pairs[0]().public)}
	change := func(fn func(*trust.File) error) error {
		return trust.Change(ctx, "deep/t.yaml", fn)
	}
	for _, match := range [][]string{{"a/**"}, {"a/**", "b"}} {
		if err := change(func(t *trust.File) error { return t.Add("k", key, match) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := change(func(t *trust.File) error {
		return t.Add("k", trust.Key{PEM: string(pairs[1]().public)}, []string{"b"})
	}); err == nil || hint(err) == "" {
		t.Errorf("another key under the same name: %v", err)
	}
	if err := change(func(t *trust.File) error { return t.Add("l", key, []string{"b"}) }); code(err) != string(diag.BadTrust) {
		t.Errorf("the same key under two names: %v", err)
	}
	tr, err := trust.Load("deep/t.yaml")
	if err != nil || len(tr.Rules) != 2 || tr.Path() != "deep/t.yaml" {
		t.Errorf("%+v, %v", tr, err)
	}
	if err := change(func(t *trust.File) error { return t.Remove("k") }); err != nil {
		t.Error(err)
	}
	if err := change(func(t *trust.File) error { return t.Remove("k") }); err == nil {
		t.Error("removed twice")
	}
	w.write(filepath.Join(w.home, "accepted.json"), "{")
	w.write("mm.yaml", "trust: deep/t.yaml\n")
	if _, err := w.open(workspace.Options{}).Accept(ctx, "deep/t.yaml"); err == nil {
		t.Error("a record that cannot be read")
	}
}

// The settings are those of the anchor.
func TestSettings(t *testing.T) {
	w := newWorld(t)
	w.write("a/mm.yaml", "modules: [m, /abs]\nplain_http: ['h:1']\ntrust: t.yaml\n")
	w.write("a/b/x.graph.yaml", "")
	w.write("c/modules/x/module.yaml", "")
	w.write("bad/mm.yaml", "nope: 1\n")
	set := func(dir string) home.Settings {
		t.Helper()
		s, err := w.open(workspace.Options{Dir: dir}).Settings()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := set(workspace.Anchor("a/b/x.graph.yaml"))
	if !slices.Equal(s.Modules, []string{filepath.FromSlash("a/m"), "/abs"}) || s.Trust != filepath.Join(w.dir, "a", "t.yaml") || s.File == "" {
		t.Errorf("%+v", s)
	}
	if s := set("c"); !slices.Equal(s.Modules, []string{filepath.FromSlash("c/modules")}) {
		t.Errorf("%+v", s)
	}
	if a, b, c := workspace.Anchor("a"), workspace.Anchor("none:1"), workspace.Anchor("a/mm.yaml"); a != "a" || b != "." || c != "a" {
		t.Errorf("anchors %s %s %s", a, b, c)
	}
	_, err := w.open(workspace.Options{Dir: "bad"}).Settings()
	w.wants("faults", err, string(diag.UnknownKey))
	w.write("good/mm.yaml", "registries: [registry.example, 'localhost:5000/team/a', '[::1]:5000']\n")
	if s := set("good"); len(s.Registries) != 3 {
		t.Errorf("%+v", s)
	}
	w.write("odd/mm.yaml", "registries:\n  - registry.example/team\n  - team/models\n  - 'registry.example/No Path'\n  - https://registry.example\n")
	_, err = w.open(workspace.Options{Dir: "odd"}).Settings()
	w.wants("registries", err, string(diag.BadConfig))
	if list, _ := diag.From(err); len(list) != 3 || list[0].Pos.Line != 3 || list[2].Pos.Line != 5 {
		t.Errorf("%v", list)
	}
	if runtime.GOOS == "windows" {
		return
	}
	// A folder that all users may write to is skipped, with a warning.
	if err := os.Chmod("a", 0o777); err != nil {
		t.Fatal(err)
	}
	if s := set("a/b"); s.File != "" {
		t.Errorf("accepted: %+v", s)
	}
	if !w.heard("may be written to by everybody") {
		t.Error("nobody was told")
	}
	if err := os.Chmod("c", 0o777); err != nil {
		t.Fatal(err)
	}
	if s := set("c"); len(s.Modules) > 0 {
		t.Errorf("world-writable modules: %+v", s)
	}
	if os.Geteuid() != 0 {
		return // only root can create another user's file
	}
	if err := os.Chmod("a", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown("a/mm.yaml", 12345, 12345); err != nil {
		t.Skip(err)
	}
	if s := set("a/b"); s.File != "" || !w.heard("belongs to another user") {
		t.Errorf("another user's: %+v", s)
	}
}

func TestDefaultHome(t *testing.T) {
	t.Setenv("MM_HOME", "x")
	if dir, err := workspace.DefaultHome(); err != nil || !filepath.IsAbs(dir) {
		t.Errorf("%s, %v", dir, err)
	}
	t.Setenv("MM_HOME", "")
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	ws, err := workspace.Open(workspace.Options{})
	if err != nil || filepath.Base(ws.Home()) != "mm" || !strings.HasPrefix(ws.Cache(), ws.Home()) {
		t.Errorf("%v", err)
	}
	if runtime.GOOS == "linux" && ws.Home() != filepath.Join(os.Getenv("XDG_DATA_HOME"), "mm") {
		t.Errorf("%s", ws.Home())
	}
}

// A project cannot select plain HTTP; the user can, by an option or in the home.
func TestProjectKeepsTLS(t *testing.T) {
	w := newWorld(t)
	w.write("a/mm.yaml", "plain_http: ['project.example', 'own.example', 'option.example']\n")
	w.write(filepath.Join(w.home, "mm.yaml"), "plain_http: ['own.example']\n")
	ws := w.open(workspace.Options{Dir: "a", PlainHTTP: []string{"option.example"}})
	set, err := ws.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if got := ws.PlainHTTP(set); !slices.Equal(got, []string{"option.example", "own.example"}) {
		t.Errorf("plain HTTP for %v", got)
	}
	if len(w.printed) != 1 || !strings.Contains(w.printed[0], "cannot select plain HTTP for project.example") {
		t.Errorf("%q", w.printed)
	}
}

// Others who can write the user's trust file or a key's file choose whom the user
// trusts; others who can read the private key sign as the user.
func TestExposedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: files have no modes there")
	}
	w := newWorld(t)
	trust := filepath.Join(w.home, "trust.yaml")
	w.sign(w.store(), w.pack(w.store(), build("good", "1.0.0", ""), "good:1.0.0"), 0)
	w.write(trust, "version: 1\nrules: [{match: \"**\", keys: [me]}]\nkeys:\n  me: {file: keys/mm.pub}\n")
	key := filepath.Join(w.home, "keys", "mm.key")
	for _, c := range []struct {
		file  string
		mode  os.FileMode
		warns bool
	}{
		{trust, 0o644, false}, {trust, 0o666, true}, {trust, 0o664, false},
		{filepath.Join(w.home, "keys", "mm.pub"), 0o646, true}, {filepath.Join(w.home, "keys", "mm.pub"), 0o644, false},
		{key, 0o644, true}, {key, 0o640, true}, {key, 0o600, false},
	} {
		if err := errors.Join(os.Chmod(key, 0o600), os.Chmod(trust, 0o644), os.Chmod(c.file, c.mode)); err != nil {
			t.Fatal(err)
		}
		w.printed = nil
		ws := w.open(workspace.Options{})
		at, err := ws.Find(t.Context(), "good:1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		_, err = ws.Admit(t.Context(), at, workspace.Claim{})
		w.wants(c.file, err, "")
		if _, err := ws.Signer("", noPassword); err != nil {
			t.Fatal(err)
		}
		if w.heard("warning: ") != c.warns {
			t.Errorf("%s %o: want a warning: %v", c.file, c.mode, c.warns)
		}
	}
}
