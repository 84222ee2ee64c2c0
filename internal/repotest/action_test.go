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

// The steps of action.yml are run as a runner would, with its expressions
// filled in: mm is built, found on the path and given its arguments.
func TestAction(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: the steps are bash")
	}
	data, err := os.ReadFile(filepath.Join(root(t), "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Runs struct {
			Steps []struct {
				Run string            `yaml:"run"`
				Env map[string]string `yaml:"env"`
			}
		}
	}
	if err := yaml.Unmarshal(data, &action); err != nil {
		t.Fatal(err)
	}
	if len(action.Runs.Steps) != 2 {
		t.Fatalf("%d steps", len(action.Runs.Steps))
	}
	temp := t.TempDir()
	path, output := filepath.Join(temp, "path"), filepath.Join(temp, "output")
	graph := filepath.Join(temp, "bad one.graph.yaml")
	if err := os.WriteFile(graph, []byte("core: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer(
		"${{ github.action_path }}", root(t), "${{ runner.temp }}", temp,
		"${{ inputs.home || format('{0}/mm-home', runner.temp) }}", filepath.Join(temp, "home"),
		"${{ inputs.run }}", "validate --format github '"+graph+"'",
	)
	search := os.Getenv("PATH")
	var printed string
	for i, s := range action.Runs.Steps {
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", fill.Replace(s.Run))
		cmd.Dir = temp
		cmd.Env = append(os.Environ(), "GITHUB_PATH="+path, "GITHUB_OUTPUT="+output, "PATH="+search)
		for key, value := range s.Env {
			value = fill.Replace(value)
			if strings.Contains(value, "${{") {
				t.Errorf("step %d: %s is %s", i, key, value)
			}
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		out, err := cmd.CombinedOutput()
		printed = string(out)
		if failed := err != nil; failed != (i == 1) {
			t.Fatalf("step %d: %v\n%s", i, err, out)
		}
		if added, err := os.ReadFile(path); err == nil {
			search = strings.TrimSpace(string(added)) + string(os.PathListSeparator) + os.Getenv("PATH")
		}
	}
	if want := "::error file="; !strings.Contains(printed, want) {
		t.Errorf("no annotation in %q", printed)
	}
	if out, err := os.ReadFile(output); err != nil || !strings.HasPrefix(string(out), "version=mm ") {
		t.Errorf("output: %q, %v", out, err)
	}
}
