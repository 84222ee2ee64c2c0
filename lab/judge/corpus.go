// Package corpus says under which licences a corpus stands, and whether they are
// allowed.
//
// Classes: A public domain, B permissive, C with attribution, share-alike,
// non-commercial or copyleft terms, D unclear, E proprietary. [Classify] goes by
// SPDX identifiers alone; a text that is none is D whatever it says, with a hint
// of what it speaks of. [Manifest.Audit] holds a manifest against what it allows.
package judge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/lab/records"
)

// Class is a class of licences.
type Class string

// The classes, the freest first.
const (
	PublicDomain Class = "A"
	Permissive   Class = "B"
	Terms        Class = "C"
	Unclear      Class = "D"
	Proprietary  Class = "E"
)

// families are the beginnings of SPDX identifiers and their classes; the longest
// that fits counts. What none fits is Unclear, although SPDX lists it.
var families = map[string]Class{
	"CC0-": PublicDomain, "CC-PDDC": PublicDomain, "CC-PDM-": PublicDomain, "PDDL-": PublicDomain, "Unlicense": PublicDomain, "0BSD": PublicDomain,
	"MIT": Permissive, "BSD-": Permissive, "Apache-": Permissive, "ISC": Permissive, "Zlib": Permissive, "BSL-1.0": Permissive, "PostgreSQL": Permissive,
	"Unicode-": Permissive, "Python-2.0": Permissive, "NCSA": Permissive, "X11": Permissive, "CDLA-Permissive-": Permissive, "BlueOak-": Permissive, "UPL-": Permissive, "MS-PL": Permissive, "AFL-": Permissive, "Artistic-2.0": Permissive,
	"CC-BY-": Terms, "GPL-": Terms, "LGPL-": Terms, "AGPL-": Terms, "MPL-": Terms, "EPL-": Terms, "EUPL-": Terms, "CDDL-": Terms, "ODbL-": Terms, "ODC-By-": Terms, "OFL-": Terms, "GFDL-": Terms,
	"CDLA-Sharing-": Terms, "OGL-UK-": Terms, "etalab-": Terms, "DL-DE-BY-": Terms, "MS-RL": Terms, "OSL-": Terms,
	"LicenseRef-Proprietary": Proprietary, "LicenseRef-Commercial": Proprietary,
}

// Finding is what a licence comes to.
type LicenseFinding struct {
	Class   Class    `json:"class"`
	Licence []string `json:"spdx,omitempty"` // the identifiers in it
	Hint    string   `json:"hint,omitempty"` // of a text that is no SPDX expression
}

// Classify finds the class of a licence. Of an expression of several, joined by
// whatever, the least free one counts.
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

// hint names what a text speaks of. It classifies nothing: "not in the public
// domain" speaks of it, too.
func languageHint(text string) string {
	low := strings.ToLower(text)
	for _, h := range [][2]string{
		{"public domain", "CC0-1.0 or CC-PDDC"}, {"mit license", "MIT"}, {"apache", "Apache-2.0"}, {"bsd", "BSD-3-Clause"},
		{"creative commons", "CC-BY-4.0 or another of its kind"}, {"gpl", "GPL-3.0-only or another of its kind"}, {"all rights reserved", "LicenseRef-Proprietary"},
	} {
		if strings.Contains(low, h[0]) {
			return fmt.Sprintf("it speaks of %q; where that is what it grants, write %s", h[0], h[1])
		}
	}
	return "it is no SPDX expression"
}

// Source is where text comes from.
type Source struct {
	ID       string `json:"id"`
	URI      string `json:"uri"`
	Licence  string `json:"licence"`            // SPDX
	Decision string `json:"decision,omitempty"` // the record that allows a licence of class C
	Language string `json:"language"`
	Domain   string `json:"domain,omitempty"`
	OCR      *OCR   `json:"ocr,omitempty"`
	Tokens   int64  `json:"tokens_estimate,omitempty"`
	Chunks   int64  `json:"chunks,omitempty"`
	Notes    string `json:"notes,omitempty"`
}

// OCR is how scanned text was read.
type OCR struct {
	Original   string  `json:"original_sha256"`
	Scanner    string  `json:"scanner,omitempty"`
	Engine     string  `json:"engine"` // with its version
	Settings   string  `json:"settings,omitempty"`
	Confidence float64 `json:"confidence,omitempty"` // 0 to 1
	Damage     float64 `json:"damage"`               // 0 to 1
	Repair     string  `json:"repair,omitempty"`
}

// Manifest is a corpus without its texts.
type Manifest struct {
	ID        string             `json:"id"`
	Stage     string             `json:"stage"`
	Tokens    int64              `json:"tokens_target"`
	Domains   map[string]float64 `json:"domain_mix,omitempty"`
	Languages map[string]float64 `json:"language_mix,omitempty"`
	Allowed   []Class            `json:"allowed,omitempty"` // A and B
	Sources   []Source           `json:"sources"`
}

// stages are those of a manifest.
var stages = []string{"smoke", "experiment0", "phase1a", "phase1b", "phase2", "ad_hoc"}

// tolerance is how far the shares of a mix may be from 1, and drift how far
// those of the sources may be from the mix.
const (
	tolerance = 0.001
	drift     = 0.05
)

// maxDamage is the most damage of scanned text.
const maxDamage = 0.30

// Failure is a fault of a source, or of the manifest where Source is empty.
type CorpusFailure struct {
	Source string `json:"source,omitempty"`
	Class  Class  `json:"class,omitempty"`
	Reason string `json:"reason"`
}

// Audit is what [Manifest.Audit] found.
type Audit struct {
	OK       bool            `json:"ok"`
	Sources  int             `json:"sources"`
	Allowed  []Class         `json:"allowed"`
	ByClass  map[Class]int   `json:"by_class"`
	Failures []CorpusFailure `json:"failures"`
}

// Read reads a manifest.
func ReadManifest(path string) (Manifest, error) {
	var m Manifest
	err := records.ReadJSON(path, &m)
	return m, err
}

// Audit finds every fault.
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
		fault("", "", "it has no id")
	case !slices.Contains(stages, m.Stage):
		fault("", "", "the stage %q is none of %v", m.Stage, stages)
	case len(m.Sources) == 0:
		fault("", "", "it has no sources")
	}
	for _, c := range a.Allowed {
		if !slices.Contains([]Class{PublicDomain, Permissive, Terms}, c) {
			fault("", c, "the class %q cannot be allowed", c)
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
			fault(s.ID, f.Class, "it stands twice")
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
		return errors.New("it lacks id, uri or language")
	case s.Tokens < 0 || s.Chunks < 0:
		return errors.New("it has less than nothing")
	case f.Class >= Unclear || !slices.Contains(allowed, f.Class):
		return errors.New(strings.TrimRight(fmt.Sprintf("the licence %q is of class %s, allowed are %v; %s", s.Licence, f.Class, allowed, f.Hint), "; "))
	case f.Class == Terms && s.Decision == "":
		return fmt.Errorf("the licence %q is of class C and no decision allows it", s.Licence)
	case s.OCR != nil && (s.OCR.Original == "" || s.OCR.Engine == "" || !(s.OCR.Damage >= 0) || s.OCR.Damage > maxDamage):
		return fmt.Errorf("scanned text with a damage of %v, the limit is %v", s.OCR.Damage, maxDamage)
	}
	return nil
}

// mix holds the shares of the sources' tokens against those that are wanted.
func (m Manifest) mix(name string, want map[string]float64, key func(Source) string) (faults []string) {
	if len(want) == 0 {
		return nil
	}
	var sum, total float64
	have := map[string]float64{}
	for _, s := range m.Sources {
		have[key(s)] += float64(s.Tokens)
		total += float64(s.Tokens)
	}
	for _, v := range want {
		sum += v
		if !(v >= 0) {
			sum = math.NaN()
		}
	}
	if !(math.Abs(sum-1) <= tolerance) {
		faults = append(faults, fmt.Sprintf("the shares of the %s mix come to %.4f", name, sum))
	}
	if total == 0 {
		return append(faults, fmt.Sprintf("no source says how many tokens it has, so that the %s mix is open", name))
	}
	for k := range have {
		if _, ok := want[k]; !ok {
			want = withZero(want, k)
		}
	}
	for k, v := range want {
		if got := have[k] / total; math.Abs(got-v) > drift {
			faults = append(faults, fmt.Sprintf("the %s %q has a share of %.3f, wanted %.3f", name, k, got, v))
		}
	}
	slices.Sort(faults)
	return faults
}

// withZero is a mix in which k is not wanted.
func withZero(mix map[string]float64, k string) map[string]float64 {
	out := map[string]float64{k: 0}
	for name, v := range mix {
		out[name] = v
	}
	return out
}
