package repotest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// action is action.yml as a runner reads it.
type action struct {
	Runs struct {
		Steps []struct {
			Run string            `yaml:"run"`
			Env map[string]string `yaml:"env"`
		}
	}
}

func readAction(t *testing.T) action {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("skipped: the steps are bash")
	}
	data, err := os.ReadFile(filepath.Join(root(t), "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.Runs.Steps) != 2 {
		t.Fatalf("got %d steps, want 2", len(a.Runs.Steps))
	}
	return a
}

// runStep runs step i in dir with the inputs filled in, and returns its output
// and whether it failed. Files of the runner are in temp.
func (a action) runStep(t *testing.T, i int, dir, temp, path string, inputs map[string]string) (string, bool) {
	t.Helper()
	pairs := []string{
		"${{ github.action_path }}", root(t), "${{ runner.temp }}", temp,
		"${{ inputs.home || format('{0}/mm-home', runner.temp) }}", filepath.Join(temp, "home"),
	}
	for _, name := range []string{"run", "directory", "key", "password", "registry", "username", "token"} {
		pairs = append(pairs, "${{ inputs."+name+" }}", inputs[name])
	}
	fill := strings.NewReplacer(pairs...)
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", a.Runs.Steps[i].Run)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GITHUB_PATH="+filepath.Join(temp, "path"), "GITHUB_OUTPUT="+filepath.Join(temp, "output"),
		"GITHUB_STEP_SUMMARY="+filepath.Join(temp, "summary"), "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"))
	if strings.Contains(a.Runs.Steps[i].Run, "${{") {
		t.Errorf("step %d: an expression in the script is expanded before the shell reads it", i)
	}
	for key, value := range a.Runs.Steps[i].Env {
		if value = fill.Replace(value); strings.Contains(value, "${{") {
			t.Errorf("step %d: %s is %s", i, key, value)
		}
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err != nil
}

// The steps build mm, put it on the path, pass its arguments, and show its faults
// as annotations.
func TestAction(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: builds mm")
	}
	a, temp := readAction(t), t.TempDir()
	if out, failed := a.runStep(t, 0, temp, temp, "", nil); failed {
		t.Fatalf("installing: %s", out)
	}
	added, err := os.ReadFile(filepath.Join(temp, "path"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(temp, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(temp, "sub", "bad one.graph.yaml"), []byte("core: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, failed := a.runStep(t, 1, filepath.Join(temp, "sub"), temp, strings.TrimSpace(string(added)),
		map[string]string{"run": "validate --format github 'bad one.graph.yaml'", "directory": "sub"})
	if want := "::error file=sub/bad one.graph.yaml"; !failed || !strings.Contains(out, want) {
		t.Errorf("got %q, failed: %v, want %q", out, failed, want)
	}
	if out, err := os.ReadFile(filepath.Join(temp, "output")); err != nil || !strings.HasPrefix(string(out), "version=mm ") {
		t.Errorf("output: %q, %v", out, err)
	}
	out, failed = a.runStep(t, 1, filepath.Join(temp, "sub"), temp, strings.TrimSpace(string(added)),
		map[string]string{"run": "assemble 'bad one.graph.yaml'", "directory": "sub/"})
	if want := "::error file=sub/bad one.graph.yaml,line=1,col=7,title=MM"; !failed || !strings.Contains(out, want) {
		t.Errorf("got %q, failed: %v, want %q", out, failed, want)
	}
}

// Diagnostics on stderr become annotations; text that looks like commands of the
// runner does not.
func TestActionAnnotations(t *testing.T) {
	a, temp := readAction(t), t.TempDir()
	t.Setenv("GITHUB_WORKSPACE", "/top")
	const fake = `#!/bin/sh
cat >&2 <<'EOF'
a,b.yaml:3:14: warning MM0102: 50% of it: error MM9999: no
    hint: error MM0001: do
/top/x/g.yaml:2:1: note MM0313: limits
/etc/g.yaml: error MM0806: empty
error MM0615: name differs
::error file=evil::x
    ::set-output name=ref::evil
resolve   core-llm@3.1.0 from catalog/core-llm
EOF
echo '::add-mask::evil'
echo '::notice file=c.yaml,line=1,col=1,title=MM0001::y'
`
	if err := os.WriteFile(filepath.Join(temp, "mm"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(temp, "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, failed := a.runStep(t, 1, temp, temp, temp, map[string]string{"run": "x", "directory": "sub"})
	stop, rest, ok := strings.Cut(out, "\n")
	token, found := strings.CutPrefix(stop, "::stop-commands::")
	quoted, live, ends := strings.Cut(rest, "::"+token+"::\n")
	if failed || !ok || !found || len(token) != 32 || !ends || !strings.Contains(quoted, "evil::x") || !strings.Contains(quoted, "::add-mask::evil") {
		t.Fatalf("failed: %v, output %q", failed, out)
	}
	want := `::notice file=sub/c.yaml,line=1,col=1,title=MM0001::y
::warning file=sub/a%2Cb.yaml,line=3,col=14,title=MM0102::50%25 of it: error MM9999: no
::notice file=x/g.yaml,line=2,col=1,title=MM0313::limits
::error file=/etc/g.yaml,line=1,col=1,title=MM0806::empty
::error title=MM0615::name differs
`
	if live != want {
		t.Errorf("got\n%s\nwant\n%s", live, want)
	}
}

// Arguments are data: nothing in them is executed or expanded.
func TestActionArguments(t *testing.T) {
	a := readAction(t)
	const fake = `#!/bin/sh
if [ "$1" = login ]; then echo "login $* $(cat)" >> "$MM_HOME/log"; exit 0; fi
for word; do printf '[%s]\n' "$word"; done
echo "local/x:1.0.0 sha256:` + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" + `"
exit 3
`
	for run, want := range map[string]string{
		`validate .`:            "[validate]\n[.]\n",
		`push "a b" 'c d' e\ f`: "[push]\n[a b]\n[c d]\n[e f]\n",
		`validate $(touch pwned) ` + "`touch pwned`": "[validate]\n[$(touch]\n[pwned)]\n[`touch]\n[pwned`]\n",
		`validate ; touch pwned && $HOME * ~`:        "[validate]\n[;]\n[touch]\n[pwned]\n[&&]\n[$HOME]\n[*]\n[~]\n",
		"run x \"\"":                                 "[run]\n[x]\n[]\n",
	} {
		temp := t.TempDir()
		bin, work := filepath.Join(temp, "bin"), filepath.Join(temp, "work")
		for _, dir := range []string{bin, work, filepath.Join(temp, "home")} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(bin, "mm"), []byte(fake), 0o755); err != nil {
			t.Fatal(err)
		}
		out, failed := a.runStep(t, 1, work, temp, bin, map[string]string{
			"run": run, "directory": ".", "key": "a $(touch pwned) key", "registry": "r.example", "username": "u", "token": "t`touch pwned`"})
		if _, out, _ = strings.Cut(out, "\n"); !failed || !strings.HasPrefix(out, want) {
			t.Errorf("%s: got %q, failed: %v, want %q", run, out, failed, want)
		}
		if left, _ := os.ReadDir(work); len(left) > 0 {
			t.Errorf("%s: executed: %v", run, left)
		}
		if text, _ := os.ReadFile(filepath.Join(temp, "output")); !strings.Contains(string(text), "ref=local/x:1.0.0\ndigest=sha256:0123") {
			t.Errorf("%s: output %q", run, text)
		}
		if text, _ := os.ReadFile(filepath.Join(temp, "home", "log")); !strings.Contains(string(text), "login login r.example --user u --password-stdin --plaintext t`touch pwned`") {
			t.Errorf("%s: login %q", run, text)
		}
		if info, err := os.Stat(filepath.Join(temp, "home", "keys", "mm.key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: key: %v, %v", run, info, err)
		}
		if text, _ := os.ReadFile(filepath.Join(temp, "summary")); !strings.Contains(string(text), "exit code 3") {
			t.Errorf("%s: summary %q", run, text)
		}
	}
}
