package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/records"
)

// The limits of a scan.
const (
	maxText  = 4 << 20 // bytes per file
	maxTexts = 10_000
)

// Boundary describes the declared scope of a project: a text, its key phrases, and wording
// that documents must not use. The digest makes any change of the text an error.
type Boundary struct {
	ID        string   `json:"id"`
	Text      string   `json:"text"`
	SHA256    string   `json:"sha256"`              // hex, of Text
	Phrases   []string `json:"phrases"`             // substrings of Text; the first is the opening phrase
	Required  []string `json:"required,omitempty"`  // names of files that must hold the text, such as README.md
	Forbidden []string `json:"forbidden,omitempty"` // regular expressions; if empty, Framings
	Negations []string `json:"negations,omitempty"` // words that make a forbidden one acceptable on the same line; if empty, Negations

	forbidden []*regexp.Regexp
	negation  *regexp.Regexp
}

// Framings returns the default forbidden expressions.
func Framings() []string {
	return []string{`surveillance`, `biometrics?`, `identity inference`, `clinical(ly)?`, `diagnos(is|es|tic|tics)`, `regulatory certification`,
		`production (deployment|release)`, `first paying customer`, `mvp`, `copyrighted corp(us|ora)`, `medical device`}
}

// Negations returns the default negations.
func Negations() []string {
	return []string{"no", "not", "never", "none", "neither", "nor", "without", "cannot", "can't", "won't", "isn't", "aren't", "doesn't", "don't",
		"exclude", "excludes", "excluded", "excluding", "forbid", "forbids", "forbidden", "prohibited", "out of scope", "instead of", "rather than"}
}

// ReadBoundary reads and checks a boundary file.
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
		return fmt.Errorf("text of %q changed: SHA-256 %s, recorded %s", b.ID, got, b.SHA256)
	}
	if b.ID == "" || strings.TrimSpace(b.Text) == "" || len(b.Phrases) == 0 {
		return errors.New("missing id, text or phrases")
	}
	for _, p := range b.Phrases {
		if strings.TrimSpace(p) == "" || !strings.Contains(flat(b.Text), flat(p)) {
			return fmt.Errorf("phrase %q not in the text", p)
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

// flat returns text in lower case with single spaces.
func flat(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// TextStatus is the status of a file or of a line.
type TextStatus string

// The statuses. TextPass, TextNotApplicable and TextDriftWarn are not failures.
const (
	TextPass          TextStatus = "pass"
	TextNotApplicable TextStatus = "not-applicable" // the file is not required to hold the text
	TextDriftWarn     TextStatus = "drift-warn"     // all phrases, different text
	TextDrift         TextStatus = "drift"          // the opening phrase, but not all others
	TextMissing       TextStatus = "missing"
	TextForbidden     TextStatus = "forbidden"
)

// TextResult is a finding in a file.
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

// skipped are the folders that Scan does not enter.
var skipped = []string{".git", ".venv", "__pycache__", "node_modules", ".pytest_cache", "data"}

// Scan checks the Markdown files at and below the paths. A required file that was not found
// is reported as missing. If no file is found, Scan fails.
func (b *Boundary) Scan(paths ...string) ([]TextResult, error) {
	files, err := markdown(paths)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no .md file in %s", strings.Join(paths, ", "))
	}
	var out []TextResult
	seen := map[string]bool{}
	for _, f := range files {
		data, err := fsx.ReadFile(f, maxText)
		if err != nil {
			return nil, err
		}
		seen[filepath.Base(f)] = true
		out = append(out, b.presence(f, string(data)))
		out = append(out, b.framings(f, string(data))...)
	}
	for _, name := range b.Required {
		if !seen[name] {
			out = append(out, TextResult{Path: name, Status: TextMissing, Detail: "file not found"})
		}
	}
	return out, nil
}

// markdown returns the files, sorted and without duplicates.
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

// presence checks whether a file holds the text.
func (b *Boundary) presence(path, text string) TextResult {
	all := flat(text)
	has := func(phrase string) bool { return strings.Contains(all, flat(phrase)) }
	missing := slices.DeleteFunc(slices.Clone(b.Phrases), has)
	switch {
	case strings.Contains(text, b.Text):
		return TextResult{Path: path, Status: TextPass}
	case len(missing) == 0:
		return TextResult{Path: path, Status: TextDriftWarn, Detail: "all phrases found, different text"}
	case has(b.Phrases[0]):
		return TextResult{Path: path, Status: TextDrift, Detail: fmt.Sprintf("%d of %d phrases missing, first %q", len(missing), len(b.Phrases), missing[0])}
	case !slices.Contains(b.Required, filepath.Base(path)):
		return TextResult{Path: path, Status: TextNotApplicable}
	}
	return TextResult{Path: path, Status: TextMissing}
}

// framings finds forbidden words outside the boundary's text.
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

// TextReport holds the findings of a scan.
type TextReport struct {
	ID       string       `json:"boundary_id"`
	SHA256   string       `json:"boundary_sha256"`
	Failures int          `json:"failures"`
	Results  []TextResult `json:"results"`
}

// Report scans the paths and counts the failures.
func (b *Boundary) Report(paths ...string) (TextReport, error) {
	results, err := b.Scan(paths...)
	r := TextReport{ID: b.ID, SHA256: b.SHA256, Results: results}
	for _, one := range results {
		if one.Failed() {
			r.Failures++
		}
	}
	return r, err
}

// Write writes a row for each finding.
func (r TextReport) Write(to io.Writer) error {
	var rows [][]string
	for _, one := range r.Results {
		at := one.Path
		if one.Line > 0 {
			at = fmt.Sprintf("%s:%d", at, one.Line)
		}
		rows = append(rows, []string{string(one.Status), at, one.Detail})
	}
	return diag.Table(to, []string{"STATUS", "FILE", "DETAIL"}, rows)
}
