// Package boundary checks that documents keep to the scope that a project has
// given itself: that they hold its paragraph, and use no framing that it
// forbids.
//
// A [Boundary] is a file of its own, with the SHA-256 of its text, so that a
// change of the text is not taken for the text. [Boundary.Scan] reads Markdown
// files, line by line.
package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/records"
)

// The bounds of a scan.
const (
	maxText  = 4 << 20
	maxTexts = 10_000
)

// Boundary is a scope.
type Boundary struct {
	ID        string   `json:"id"`
	Text      string   `json:"text"`
	SHA256    string   `json:"sha256"`              // hex, of Text
	Phrases   []string `json:"phrases"`             // the first is the opening one
	Required  []string `json:"required,omitempty"`  // names of files that must hold the text, such as README.md
	Forbidden []string `json:"forbidden,omitempty"` // regular expressions; none: Framings
	Negations []string `json:"negations,omitempty"` // words that make a framing harmless; none: Negations

	forbidden []*regexp.Regexp
	negation  *regexp.Regexp
}

// Framings are what a boundary forbids that names nothing of its own.
func Framings() []string {
	return []string{`surveillance`, `biometrics?`, `identity inference`, `clinical(ly)?`, `diagnos(is|es|tic|tics)`, `regulatory certification`,
		`production (deployment|release)`, `first paying customer`, `mvp`, `copyrighted corp(us|ora)`, `medical device`}
}

// Negations are the words that make a framing of the same line harmless.
func Negations() []string {
	return []string{"no", "not", "never", "none", "neither", "nor", "without", "cannot", "can't", "won't", "isn't", "aren't", "doesn't", "don't",
		"exclude", "excludes", "excluded", "excluding", "forbid", "forbids", "forbidden", "prohibited", "out of scope", "instead of", "rather than"}
}

// Read reads and checks a boundary.
func ReadBoundary(path string) (*Boundary, error) {
	var b Boundary
	if err := records.ReadJSON(path, &b); err != nil {
		return nil, err
	}
	if err := b.compile(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &b, nil
}

func (b *Boundary) compile() error {
	sum := sha256.Sum256([]byte(b.Text))
	if got := hex.EncodeToString(sum[:]); got != b.SHA256 {
		return fmt.Errorf("the text of %q has drifted: its SHA-256 is %s, the boundary says %s", b.ID, got, b.SHA256)
	}
	if b.ID == "" || strings.TrimSpace(b.Text) == "" || len(b.Phrases) == 0 {
		return errors.New("a boundary has an id, a text and phrases")
	}
	for _, p := range b.Phrases {
		if strings.TrimSpace(p) == "" || !strings.Contains(flat(b.Text), flat(p)) {
			return fmt.Errorf("the phrase %q is not in the text", p)
		}
	}
	forbidden, negations := b.Forbidden, b.Negations
	if len(forbidden) == 0 {
		forbidden = Framings()
	}
	if len(negations) == 0 {
		negations = Negations()
	}
	for _, f := range forbidden {
		re, err := regexp.Compile(`(?i)\b(?:` + f + `)\b`)
		if err != nil {
			return err
		}
		b.forbidden = append(b.forbidden, re)
	}
	for i := range negations {
		negations[i] = regexp.QuoteMeta(negations[i])
	}
	b.negation = regexp.MustCompile(`(?i)\b(?:` + strings.Join(negations, "|") + `)\b`)
	return nil
}

// flat is text in lower case with single blanks.
func flat(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// Status is what a file, or a line of it, comes to.
type TextStatus string

// The statuses. Pass, NotApplicable and DriftWarn are no failures.
const (
	TextPass          TextStatus = "pass"
	TextNotApplicable TextStatus = "not-applicable" // the file need not hold the text
	TextDriftWarn     TextStatus = "drift-warn"     // all phrases, other words between them
	TextDrift         TextStatus = "drift"          // the opening phrase, and not the rest
	TextMissing       TextStatus = "missing"
	TextForbidden     TextStatus = "forbidden"
)

// Result is one finding.
type TextResult struct {
	Path   string     `json:"path"`
	Status TextStatus `json:"status"`
	Line   int        `json:"line,omitempty"`
	Detail string     `json:"detail,omitempty"`
}

// Failed reports whether the finding is a failure.
func (r TextResult) Failed() bool {
	return r.Status != TextPass && r.Status != TextNotApplicable && r.Status != TextDriftWarn
}

// skipped are the folders that are not looked into.
var skipped = []string{".git", ".venv", "__pycache__", "node_modules", ".pytest_cache", "data"}

// Scan reads the Markdown files at and below the paths. One that is named
// although it is required is missing where it is not there; to scan nothing is an
// error.
func (b *Boundary) Scan(paths ...string) ([]TextResult, error) {
	files, err := markdown(paths)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no .md file at %s", strings.Join(paths, ", "))
	}
	var out []TextResult
	met := map[string]bool{}
	for _, f := range files {
		data, err := fsx.ReadFile(f, maxText)
		if err != nil {
			return nil, err
		}
		met[filepath.Base(f)] = true
		out = append(out, b.presence(f, string(data)))
		out = append(out, b.framings(f, string(data))...)
	}
	for _, name := range b.Required {
		if !met[name] {
			out = append(out, TextResult{Path: name, Status: TextMissing, Detail: "no such file was scanned"})
		}
	}
	return out, nil
}

// markdown lists the files, sorted, each once.
func markdown(paths []string) ([]string, error) {
	var files []string
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case e.IsDir() && path != root && slices.Contains(skipped, e.Name()):
				return fs.SkipDir
			case !e.IsDir() && strings.EqualFold(filepath.Ext(path), ".md"):
				if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
					return err
				}
				files = append(files, path)
			}
			if len(files) > maxTexts {
				return fmt.Errorf("more than %d files", maxTexts)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// presence says whether a file holds the text.
func (b *Boundary) presence(path, text string) TextResult {
	all := flat(text)
	has := func(phrase string) bool { return strings.Contains(all, flat(phrase)) }
	missing := slices.DeleteFunc(slices.Clone(b.Phrases), has)
	switch {
	case strings.Contains(text, b.Text):
		return TextResult{Path: path, Status: TextPass}
	case len(missing) == 0:
		return TextResult{Path: path, Status: TextDriftWarn, Detail: "all phrases are there, and the text is another"}
	case has(b.Phrases[0]):
		return TextResult{Path: path, Status: TextDrift, Detail: fmt.Sprintf("%d of %d phrases are missing, first %q", len(missing), len(b.Phrases), missing[0])}
	case !slices.Contains(b.Required, filepath.Base(path)):
		return TextResult{Path: path, Status: TextNotApplicable}
	}
	return TextResult{Path: path, Status: TextMissing}
}

// framings finds forbidden words outside of the boundary's own text.
func (b *Boundary) framings(path, text string) []TextResult {
	var out []TextResult
	n := 0
	blank := strings.Repeat("\n", strings.Count(b.Text, "\n"))
	for line := range strings.SplitSeq(strings.ReplaceAll(text, b.Text, blank), "\n") {
		n++
		if b.negation.MatchString(line) {
			continue
		}
		for _, re := range b.forbidden {
			if word := re.FindString(line); word != "" {
				out = append(out, TextResult{path, TextForbidden, n, fmt.Sprintf("%q", word)})
			}
		}
	}
	return out
}
