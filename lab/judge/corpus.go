package judge

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/lab/records"
)

// Class is a class of licenses.
type Class string

// The classes, from the least to the most restrictive.
const (
	PublicDomain Class = "A"
	Permissive   Class = "B"
	Terms        Class = "C" // attribution, share-alike, non-commercial or copyleft
	Unclear      Class = "D"
	Proprietary  Class = "E"
)

// families maps prefixes of SPDX identifiers to classes; the longest match counts. Without
// a match, the class is Unclear even for identifiers that SPDX lists.
var families = map[string]Class{
	"CC0-": PublicDomain, "CC-PDDC": PublicDomain, "CC-PDM-": PublicDomain, "PDDL-": PublicDomain, "Unlicense": PublicDomain, "0BSD": PublicDomain,
	"MIT": Permissive, "BSD-": Permissive, "Apache-": Permissive, "ISC": Permissive, "Zlib": Permissive, "BSL-1.0": Permissive, "PostgreSQL": Permissive,
	"Unicode-": Permissive, "Python-2.0": Permissive, "NCSA": Permissive, "X11": Permissive, "CDLA-Permissive-": Permissive, "BlueOak-": Permissive, "UPL-": Permissive, "MS-PL": Permissive, "AFL-": Permissive, "Artistic-2.0": Permissive,
	"CC-BY-": Terms, "GPL-": Terms, "LGPL-": Terms, "AGPL-": Terms, "MPL-": Terms, "EPL-": Terms, "EUPL-": Terms, "CDDL-": Terms, "ODbL-": Terms, "ODC-By-": Terms, "OFL-": Terms, "GFDL-": Terms,
	"CDLA-Sharing-": Terms, "OGL-UK-": Terms, "etalab-": Terms, "DL-DE-BY-": Terms, "MS-RL": Terms, "OSL-": Terms,
	"LicenseRef-Proprietary": Proprietary, "LicenseRef-Commercial": Proprietary,
}

// LicenseFinding is the result of classifying a license.
type LicenseFinding struct {
	Class   Class    `json:"class"`
	Licence []string `json:"spdx,omitempty"` // identifiers in the expression
	Hint    string   `json:"hint,omitempty"` // for a text that is not an SPDX expression
}

// Classify returns the class of an SPDX expression. Of several identifiers, regardless of
// the operators, the most restrictive class counts. Any other text is Unclear.
func Classify(text string) LicenseFinding {
	e, err := spdx.Parse(strings.TrimSpace(text))
	if err != nil || len(e.IDs) == 0 {
		return LicenseFinding{Class: Unclear, Hint: languageHint(text)}
	}
	f := LicenseFinding{Class: PublicDomain, Licence: e.IDs}
	for _, id := range e.IDs {
		f.Class = max(f.Class, classOf(id))
	}
	return f
}

func classOf(id string) Class {
	best, class := -1, Unclear
	for prefix, c := range families {
		if len(prefix) > best && (id == prefix || strings.HasPrefix(id, prefix) && (strings.HasSuffix(prefix, "-") || strings.HasPrefix(id, prefix+"-"))) {
			best, class = len(prefix), c
		}
	}
	return class
}

// languageHint suggests an identifier for a license text. It does not classify: "not in the
// public domain" mentions it, too.
func languageHint(text string) string {
	low := strings.ToLower(text)
	for _, h := range [][2]string{
		{"public domain", "CC0-1.0 or CC-PDDC"}, {"mit license", "MIT"}, {"apache", "Apache-2.0"}, {"bsd", "BSD-3-Clause"},
		{"creative commons", "CC-BY-4.0 or another of its kind"}, {"gpl", "GPL-3.0-only or another of its kind"}, {"all rights reserved", "LicenseRef-Proprietary"},
	} {
		if strings.Contains(low, h[0]) {
			return fmt.Sprintf("it mentions %q; if that is the grant, write %s", h[0], h[1])
		}
	}
	return "not an SPDX expression"
}

// Source is a source of text.
type Source struct {
	ID       string `json:"id"`
	URI      string `json:"uri"`
	Licence  string `json:"licence"`            // SPDX
	Decision string `json:"decision,omitempty"` // ID of the decision that allows a license of class C
	Language string `json:"language"`
	Domain   string `json:"domain,omitempty"`
	OCR      *OCR   `json:"ocr,omitempty"`
	Tokens   int64  `json:"tokens_estimate,omitempty"`
	Chunks   int64  `json:"chunks,omitempty"`
	Notes    string `json:"notes,omitempty"`
}

// OCR describes how scanned text was recognized.
type OCR struct {
	Original   string  `json:"original_sha256"`
	Scanner    string  `json:"scanner,omitempty"`
	Engine     string  `json:"engine"` // with its version
	Settings   string  `json:"settings,omitempty"`
	Confidence float64 `json:"confidence,omitempty"` // 0 to 1
	Damage     float64 `json:"damage"`               // 0 to 1
	Repair     string  `json:"repair,omitempty"`
}

// Manifest describes a corpus.
type Manifest struct {
	ID        string             `json:"id"`
	Stage     string             `json:"stage"`
	Tokens    int64              `json:"tokens_target"`
	Domains   map[string]float64 `json:"domain_mix,omitempty"`
	Languages map[string]float64 `json:"language_mix,omitempty"`
	Allowed   []Class            `json:"allowed,omitempty"` // if empty, A and B
	Sources   []Source           `json:"sources"`
}

// stages are the valid values of Manifest.Stage.
var stages = []string{"smoke", "experiment0", "phase1a", "phase1b", "phase2", "ad_hoc"}

// tolerance is the maximum deviation of a mix's sum from 1, drift that of the sources'
// shares from the mix.
const (
	tolerance = 0.001
	drift     = 0.05
)

// maxDamage is the maximum damage of scanned text.
const maxDamage = 0.30

// CorpusFailure is a fault of a source, or of the manifest if Source is empty.
type CorpusFailure struct {
	Source string `json:"source,omitempty"`
	Class  Class  `json:"class,omitempty"`
	Reason string `json:"reason"`
}

// Audit is the result of [Manifest.Audit].
type Audit struct {
	OK       bool            `json:"ok"`
	Sources  int             `json:"sources"`
	Allowed  []Class         `json:"allowed"`
	ByClass  map[Class]int   `json:"by_class"`
	Failures []CorpusFailure `json:"failures"`
}

// ReadManifest reads a manifest.
func ReadManifest(path string) (Manifest, error) {
	var m Manifest
	err := records.ReadJSON(path, &m)
	return m, err
}

// Audit checks the manifest and returns all faults.
func (m Manifest) Audit() Audit {
	a := Audit{Sources: len(m.Sources), Allowed: m.Allowed, ByClass: map[Class]int{}, Failures: []CorpusFailure{}}
	if len(a.Allowed) == 0 {
		a.Allowed = []Class{PublicDomain, Permissive}
	}
	fault := func(source string, c Class, format string, args ...any) {
		a.Failures = append(a.Failures, CorpusFailure{source, c, fmt.Sprintf(format, args...)})
	}
	switch {
	case m.ID == "":
		fault("", "", "missing id")
	case !slices.Contains(stages, m.Stage):
		fault("", "", "unknown stage %q, want one of %v", m.Stage, stages)
	case len(m.Sources) == 0:
		fault("", "", "no sources")
	}
	for _, c := range a.Allowed {
		if !slices.Contains([]Class{PublicDomain, Permissive, Terms}, c) {
			fault("", c, "class %q cannot be allowed", c)
		}
	}
	seen := map[string]bool{}
	for _, s := range m.Sources {
		f := Classify(s.Licence)
		a.ByClass[f.Class]++
		if err := s.fault(f, a.Allowed); err != nil {
			fault(s.ID, f.Class, "%v", err)
		}
		if seen[s.ID] {
			fault(s.ID, f.Class, "duplicate id")
		}
		seen[s.ID] = true
	}
	for _, reason := range slices.Concat(m.mix("language", m.Languages, func(s Source) string { return s.Language }), m.mix("domain", m.Domains, func(s Source) string { return s.Domain })) {
		fault("", "", "%s", reason)
	}
	a.OK = len(a.Failures) == 0
	return a
}

func (s Source) fault(f LicenseFinding, allowed []Class) error {
	switch {
	case s.ID == "" || s.URI == "" || s.Language == "":
		return errors.New("missing id, uri or language")
	case s.Tokens < 0 || s.Chunks < 0:
		return errors.New("negative tokens_estimate or chunks")
	case f.Class >= Unclear || !slices.Contains(allowed, f.Class):
		return errors.New(strings.TrimRight(fmt.Sprintf("license %q has class %s, allowed %v; %s", s.Licence, f.Class, allowed, f.Hint), "; "))
	case f.Class == Terms && s.Decision == "":
		return fmt.Errorf("license %q has class C and needs a decision", s.Licence)
	case s.OCR != nil && (s.OCR.Original == "" || s.OCR.Engine == "" || !(s.OCR.Damage >= 0) || s.OCR.Damage > maxDamage):
		return fmt.Errorf("OCR damage %v, limit %v, or missing original or engine", s.OCR.Damage, maxDamage)
	}
	return nil
}

// mix compares the shares of the sources' tokens with the wanted ones.
func (m Manifest) mix(name string, want map[string]float64, key func(Source) string) (faults []string) {
	if len(want) == 0 {
		return nil
	}
	var sum, total float64
	tokens := map[string]float64{}
	for _, s := range m.Sources {
		tokens[key(s)] += float64(s.Tokens)
		total += float64(s.Tokens)
	}
	for _, v := range want {
		sum += v
		if !(v >= 0) {
			sum = math.NaN()
		}
	}
	if !(math.Abs(sum-1) <= tolerance) {
		faults = append(faults, fmt.Sprintf("sum of %s_mix is %.4f, want 1", name, sum))
	}
	if total == 0 {
		return append(faults, fmt.Sprintf("no source has tokens_estimate, needed for %s_mix", name))
	}
	for k := range tokens {
		if _, ok := want[k]; !ok {
			want = withZero(want, k)
		}
	}
	for k, v := range want {
		if got := tokens[k] / total; math.Abs(got-v) > drift {
			faults = append(faults, fmt.Sprintf("%s %q: share %.3f, want %.3f", name, k, got, v))
		}
	}
	slices.Sort(faults)
	return faults
}

// withZero returns a mix in which k has the share 0.
func withZero(mix map[string]float64, k string) map[string]float64 {
	out := map[string]float64{k: 0}
	for name, v := range mix {
		out[name] = v
	}
	return out
}

// Write writes the number of sources of each class, and a row for each fault.
func (a Audit) Write(to io.Writer) error {
	if err := diag.Line(to, "%s; class A %d, B %d, C %d, D %d, E %d", diag.Count(a.Sources, "source"), a.ByClass["A"], a.ByClass["B"], a.ByClass["C"], a.ByClass["D"], a.ByClass["E"]); err != nil || len(a.Failures) == 0 {
		return err
	}
	var rows [][]string
	for _, f := range a.Failures {
		rows = append(rows, []string{f.Source, string(f.Class), f.Reason})
	}
	return diag.Table(to, []string{"SOURCE", "CLASS", "REASON"}, rows)
}
