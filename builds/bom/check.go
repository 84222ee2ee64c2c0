package bom

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"mm-abi.org/mm/internal/spdx"
)

const (
	// MaxBill bounds a bill in bytes.
	MaxBill = 8 << 20
	// maxNesting bounds the nesting of components.
	maxNesting = 8
	// maxFaults bounds the faults that Check reports.
	maxFaults = 32
)

// readVersions are the versions of the format that exist in JSON and that Check reads.
var readVersions = []string{"1.2", "1.3", "1.4", "1.5", "1.6", "1.7"}

// isSerial reports whether a serial number is urn:uuid: with a UUID in lower case, as the
// schema of the format demands.
func isSerial(s string) bool {
	rest, ok := strings.CutPrefix(s, "urn:uuid:")
	if !ok || len(rest) != 36 {
		return false
	}
	for i, c := range []byte(rest) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (c == '-') || !dash && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// Check reports every fault of a CycloneDX bill in JSON, and whether it is about the
// artifact with the digest subject; "" compares no digest. It demands more than the
// schema of the format: see the package's documentation.
func Check(data []byte, subject string) error {
	if len(data) > MaxBill {
		return fmt.Errorf("bill of materials too large: got %d bytes, want at most %d", len(data), MaxBill)
	}
	var form struct {
		Format  string `json:"bomFormat"`
		Version string `json:"specVersion"`
		Number  *int   `json:"version"` // of the bill. Nil: 1
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	if form.Format != cyclonedx.BOMFormat {
		return fmt.Errorf("bomFormat: got %q, want %s", form.Format, cyclonedx.BOMFormat)
	}
	if !slices.Contains(readVersions, form.Version) {
		return fmt.Errorf("specVersion: got %q, want one of %s", form.Version, strings.Join(readVersions, ", "))
	}
	if form.Number != nil && *form.Number < 1 {
		return fmt.Errorf("version: got %d, want at least 1", *form.Number)
	}
	var doc cyclonedx.BOM
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&doc); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	c := checker{refs: map[string]bool{}, version: form.Version}
	c.document(&doc, subject)
	return errors.Join(c.faults...)
}

// checker collects the faults of a bill.
type checker struct {
	version string          // of the format
	refs    map[string]bool // bom-refs of components
	named   []string        // references to components
	faults  []error
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// document checks the parts of a bill.
func (c *checker) document(doc *cyclonedx.BOM, subject string) {
	if !isSerial(doc.SerialNumber) {
		c.fault("serialNumber: got %.60q, want urn:uuid: and a UUID", doc.SerialNumber)
	}
	switch m := doc.Metadata; {
	case m == nil || m.Component == nil:
		c.fault("metadata.component: missing")
	default:
		if _, err := time.Parse(time.RFC3339, m.Timestamp); err != nil {
			c.fault("metadata.timestamp: got %q, want a time of RFC 3339", m.Timestamp)
		}
		c.component("metadata.component", m.Component, 0)
		if subject != "" && !hasHash(m.Component, subject) {
			c.fault("metadata.component: the bill is about another artifact: want the hash %s", subject)
		}
	}
	if doc.Components == nil || len(*doc.Components) == 0 {
		if doc.Metadata == nil || doc.Metadata.Component == nil || doc.Metadata.Component.Components == nil {
			c.fault("components: none")
		}
	} else {
		c.components("components", doc.Components, 0)
	}
	if doc.Dependencies != nil {
		for _, d := range *doc.Dependencies {
			c.named = append(c.named, d.Ref)
			if d.Dependencies != nil {
				c.named = append(c.named, *d.Dependencies...)
			}
		}
	}
	for _, ref := range c.named {
		if !c.refs[ref] {
			c.fault("reference to %q: no such component", ref)
		}
	}
}

func (c *checker) components(path string, list *[]cyclonedx.Component, depth int) {
	for i := range *list {
		c.component(fmt.Sprintf("%s[%d]", path, i), &(*list)[i], depth)
	}
}

// component checks a component and those inside it.
func (c *checker) component(path string, one *cyclonedx.Component, depth int) {
	switch {
	case depth > maxNesting:
		c.fault("%s: nested deeper than %d", path, maxNesting)
		return
	case one.Name == "":
		c.fault("%s.name: missing", path)
	case one.Type == "":
		c.fault("%s.type: missing", path)
	}
	if one.BOMRef != "" && c.refs[one.BOMRef] {
		c.fault("%s: duplicate bom-ref %q", path, one.BOMRef)
	}
	c.refs[one.BOMRef] = true
	c.hashes(path, one)
	c.licenses(path, one)
	if one.ModelCard != nil {
		c.card(path, one)
	}
	if one.Components != nil {
		c.components(path+".components", one.Components, depth+1)
	}
}

// hashLengths maps algorithms to their hex digits.
var hashLengths = map[cyclonedx.HashAlgorithm]int{
	cyclonedx.HashAlgoMD5: 32, cyclonedx.HashAlgoSHA1: 40, cyclonedx.HashAlgoSHA256: 64, cyclonedx.HashAlgoSHA384: 96, cyclonedx.HashAlgoSHA512: 128,
	cyclonedx.HashAlgoSHA3_256: 64, cyclonedx.HashAlgoSHA3_384: 96, cyclonedx.HashAlgoSHA3_512: 128,
	cyclonedx.HashAlgoBlake2b_256: 64, cyclonedx.HashAlgoBlake2b_384: 96, cyclonedx.HashAlgoBlake2b_512: 128, cyclonedx.HashAlgoBlake3: 64,
}

func (c *checker) hashes(path string, one *cyclonedx.Component) {
	if one.Hashes == nil {
		if one.Type == cyclonedx.ComponentTypeFile || one.Type == cyclonedx.ComponentTypeMachineLearningModel {
			c.fault("%s: %s %q without a hash", path, one.Type, one.Name)
		}
		return
	}
	for _, h := range *one.Hashes {
		want, ok := hashLengths[h.Algorithm]
		if _, err := hex.DecodeString(h.Value); !ok || err != nil || len(h.Value) != want {
			c.fault("%s: invalid %s hash %q", path, h.Algorithm, h.Value)
		}
	}
}

func (c *checker) licenses(path string, one *cyclonedx.Component) {
	if one.Licenses == nil {
		return
	}
	for _, l := range *one.Licenses {
		if l.Expression != "" && len(*one.Licenses) > 1 && c.version < "1.7" {
			c.fault("%s: %d licenses, one of them an expression: want one expression or no other form before 1.7", path, len(*one.Licenses))
		}
		text := l.Expression
		if l.License != nil {
			text = l.License.ID
			if text == "" && l.License.Name == "" || text != "" && strings.HasPrefix(text, "LicenseRef-") {
				c.fault("%s: license without an SPDX id or a name", path)
				continue
			}
		}
		if text == "" {
			continue
		}
		if _, err := spdx.Parse(text); err != nil {
			c.fault("%s: invalid license %q: %v", path, text, err)
		}
	}
}

// card checks a model card and collects its references to datasets.
func (c *checker) card(path string, one *cyclonedx.Component) {
	if one.Type != cyclonedx.ComponentTypeMachineLearningModel {
		c.fault("%s: a model card on a component of type %q", path, one.Type)
	}
	if p := one.ModelCard.ModelParameters; p != nil && p.Datasets != nil {
		for _, d := range *p.Datasets {
			if d.Ref != "" {
				c.named = append(c.named, d.Ref)
			}
		}
	}
	if p := one.ModelCard.ModelParameters; p != nil && p.Approach != nil && !slices.Contains(approaches, p.Approach.Type) {
		c.fault("%s: approach: got %q, want one of %v", path, p.Approach.Type, approaches)
	}
	c.environment(path, one.ModelCard.Considerations)
	if q := one.ModelCard.QuantitativeAnalysis; q != nil && q.PerformanceMetrics != nil {
		if len(*q.PerformanceMetrics) == 0 {
			c.fault("%s: an analysis without metrics", path)
		}
		for _, m := range *q.PerformanceMetrics {
			if m.Type == "" || m.Value == "" {
				c.fault("%s: a metric without type or value", path)
			}
		}
	}
}

// approaches are the kinds of training that the format has names for.
var approaches = []cyclonedx.MLModelParametersApproachType{
	cyclonedx.MLModelParametersApproachTypeSupervised, cyclonedx.MLModelParametersApproachTypeUnsupervised, cyclonedx.MLModelParametersApproachTypeReinforcementLearning,
	cyclonedx.MLModelParametersApproachTypeSemiSupervised, cyclonedx.MLModelParametersApproachTypeSelfSupervised,
}

// environment checks the energy of a model card, which the format has since 1.6 and whose
// units are fixed.
func (c *checker) environment(path string, of *cyclonedx.MLModelCardConsiderations) {
	if of == nil || of.EnvironmentalConsiderations == nil {
		return
	}
	if c.version < "1.6" {
		c.fault("%s: environmentalConsiderations in version %s, which has none", path, c.version)
	}
	if of.EnvironmentalConsiderations.EnergyConsumptions == nil {
		return
	}
	energy := func(m *cyclonedx.MLModelEnergyMeasure) {
		if m != nil && m.Unit != cyclonedx.MLModelEnergyUnitKWH {
			c.fault("%s: energy: got the unit %q, want %s", path, m.Unit, cyclonedx.MLModelEnergyUnitKWH)
		}
	}
	for _, e := range *of.EnvironmentalConsiderations.EnergyConsumptions {
		energy(&e.ActivityEnergyCost)
		for _, m := range []*cyclonedx.MLModelCO2Measure{e.CO2CostEquivalent, e.CO2CostOffset} {
			if m != nil && m.Unit != cyclonedx.MLModelCO2UnitTCO2Eq {
				c.fault("%s: CO2: got the unit %q, want %s", path, m.Unit, cyclonedx.MLModelCO2UnitTCO2Eq)
			}
		}
		if e.EnergyProviders != nil {
			for _, p := range *e.EnergyProviders {
				energy(p.EnergyProvided)
			}
		}
	}
}

// hasHash reports whether a component has the digest.
func hasHash(one *cyclonedx.Component, digest string) bool {
	value, ok := strings.CutPrefix(digest, "sha256:")
	if !ok || one.Hashes == nil {
		return false
	}
	for _, h := range *one.Hashes {
		if h.Algorithm == cyclonedx.HashAlgoSHA256 && h.Value == value {
			return true
		}
	}
	return false
}
