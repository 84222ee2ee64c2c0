package repotest_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// firstChecked is the last commit before subjects had to follow the rule.
const firstChecked = "4ddc067"

// subject matches "package, path: verb what changed".
var subject = regexp.MustCompile(`^[A-Za-z0-9_./,{}* -]+: ([a-z-]+),? \S`)

// Subjects of commits name the thing that changes and begin with an imperative
// verb from testdata/verbs.txt, so that git log --grep finds them.
func TestCommitSubjects(t *testing.T) {
	if err := exec.Command("git", "-C", root(t), "cat-file", "-e", firstChecked).Run(); err != nil {
		t.Skipf("skipped: commit %s is not in this checkout", firstChecked)
	}
	out, err := exec.Command("git", "-C", root(t), "log", "--no-merges", "--format=%h %s", firstChecked+"..HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	verbs := commitVerbs(t)
	for line := range strings.Lines(string(out)) {
		hash, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if why := badSubject(text, verbs); why != "" {
			t.Errorf("%s %q: %s", hash, text, why)
		}
	}
}

// badSubject returns the fault of a commit subject, or "".
func badSubject(text string, verbs map[string]bool) string {
	m := subject.FindStringSubmatch(text)
	switch {
	case m == nil:
		return `want "package: verb what", such as "registry/remote: ignore stale Range"`
	case !verbs[m[1]]:
		return m[1] + " is not an imperative verb of testdata/verbs.txt"
	}
	return ""
}

func commitVerbs(t *testing.T) map[string]bool {
	t.Helper()
	data, err := os.ReadFile("testdata/verbs.txt")
	if err != nil {
		t.Fatal(err)
	}
	verbs := map[string]bool{}
	for _, v := range strings.Fields(string(data)) {
		verbs[v] = true
	}
	return verbs
}

func TestBadSubject(t *testing.T) {
	verbs := commitVerbs(t)
	for text, good := range map[string]bool{
		"device/ssh: make Close idempotent":                 true,
		"registry/remote, docs: ignore stale Range":         true,
		"device/ssh: a lane that is closed twice is closed": false,
		"runtimes: moved things":                            false,
		"make Close idempotent":                             false,
		"x: fix":                                            false,
	} {
		if why := badSubject(text, verbs); (why == "") != good {
			t.Errorf("%q: got %q", text, why)
		}
	}
}
