package repotest_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files under testdata and docs that tests hold")

// dialect matches words that plain technical English does not need: verbs of
// speech and posture for things, negated nouns, and relative clauses in place
// of a noun. The rules are in CONTRIBUTING.md.
var dialect = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`stands?`, `stood`, `lies`, `told`, `tells?`, `nobody`, `whoever`, `hears?`, `heard`, `speaks?`, `spoken of`,
	`vouch\w*`, `babbl\w*`, `deaf`, `beside`, `besides`, `films?`, `says?`, `said`, `knows?`, `gives?`, `gave`, `lets`,
	`is no`, `are no`, `is none`, `are none`, `another than`, `not there`, `any more`, `at hand`, `but for`,
	`of (?:its|their|one's) own`, `what is`, `what it`, `what was`, `what has`, `what a`, `what the`, `by what`, `with what`,
	`comes? to`, `came to`, `makes? of`,
}, "|") + `)\b`)

// names are identifiers that do not describe a value or an action.
var names = map[string]bool{
	"told": true, "said": true, "given": true, "known": true, "taken": true, "whole": true, "beside": true,
	"behind": true, "apart": true, "stands": true, "made": true, "met": true, "lies": true, "nobody": true, "spoken": true, "heard": true,
}

const countsFile = "testdata/language.txt"

// Counts of the dialect in comments, identifiers and documents fall and never
// rise. go test ./internal/repotest -run Language -update records lower counts.
func TestLanguage(t *testing.T) {
	got := languageCounts(t)
	want := readCounts(t)
	if *update {
		for name, n := range got {
			if old, ok := want[name]; ok && n > old {
				t.Errorf("%s: %d words of the dialect, %d recorded; rewrite them", name, n, old)
				got[name] = old
			}
		}
		writeCounts(t, got)
		return
	}
	for _, name := range sortedKeys(got) {
		if n, most := got[name], want[name]; n > most {
			t.Errorf("%s: %d words of the dialect, at most %d are allowed (CONTRIBUTING.md has the rules)", name, n, most)
		} else if n < most {
			t.Errorf("%s: %d words of the dialect, %d recorded: run with -update to keep the gain", name, n, most)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is recorded and does not exist: run with -update", name)
		}
	}
}

// languageCounts returns the count of each package and document with any.
func languageCounts(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	add := func(name string, n int) {
		if n > 0 {
			counts[name] += n
		}
	}
	fset := token.NewFileSet()
	for _, path := range goFiles(t) {
		rel, _ := filepath.Rel(root(t), path)
		name := filepath.ToSlash(filepath.Dir(rel))
		if name == "internal/repotest" {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			add(name, len(dialect.FindAllString(group.Text(), -1)))
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Obj != nil && id.Obj.Pos() == id.Pos() && names[strings.ToLower(id.Name)] {
				add(name, 1)
			}
			return true
		})
	}
	for _, path := range documents(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(root(t), path)
		add(filepath.ToSlash(rel), len(dialect.FindAllString(prose(string(data)), -1)))
	}
	return counts
}

// documents returns the Markdown files of the root and of docs.
func documents(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "catalog/*/README.md", "builds/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	slices.Sort(paths)
	return paths
}

// prose removes fenced code blocks and inline code from Markdown.
func prose(text string) string {
	text = regexp.MustCompile("(?s)\n```.*?\n```").ReplaceAllString(text, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func readCounts(t *testing.T) map[string]int {
	t.Helper()
	data, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(data)) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			t.Fatalf("%s: bad line %q", countsFile, line)
		}
		counts[name] = n
	}
	return counts
}

func writeCounts(t *testing.T, counts map[string]int) {
	t.Helper()
	var b strings.Builder
	for _, name := range sortedKeys(counts) {
		fmt.Fprintf(&b, "%s %d\n", name, counts[name])
	}
	if err := os.WriteFile(countsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDialect(t *testing.T) {
	for text, want := range map[string]int{
		"Claim selects how strictly an artifact is verified.": 0,
		"what is not there is no fault":                       3,
		"nobody is told":                                      2,
		"see `what is` in the code":                           1,
	} {
		if got := len(dialect.FindAllString(text, -1)); got != want {
			t.Errorf("%q: got %d words, want %d", text, got, want)
		}
	}
	if got := prose("a `what is` b\n```\nnobody\n```\n"); strings.ContainsFunc(got, func(r rune) bool { return r == 'w' }) || strings.Contains(got, "nobody") {
		t.Errorf("prose keeps code: %q", got)
	}
}
