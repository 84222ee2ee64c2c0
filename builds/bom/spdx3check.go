package bom

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/internal/spdx"
)

// spdx3Individuals lists the elements that the model itself defines.
const spdx3Individuals = " NoAssertionElement NoneElement SpdxOrganization expandedlicensing_NoAssertionLicense expandedlicensing_NoneLicense "

// CheckSPDX3 reports every fault of an SPDX 3.0.1 document in JSON-LD, and whether its
// bill is about the artifact with the digest subject; "" compares no digest. Classes outside
// the profiles Core, Software, AI, Dataset and SimpleLicensing are refused.
func CheckSPDX3(data []byte, subject string) error {
	if len(data) > MaxBill {
		return fmt.Errorf("bill of materials too large: got %d bytes, want at most %d", len(data), MaxBill)
	}
	var doc struct {
		Context any              `json:"@context"`
		Graph   []map[string]any `json:"@graph"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("bill of materials: %w", err)
	}
	if doc.Context != spdx3Context {
		return fmt.Errorf("@context: got %v, want %s", doc.Context, spdx3Context)
	}
	c := spdx3Checker{vocabulary: newVocabulary(), ids: map[string]map[string]any{}}
	for i, n := range doc.Graph {
		c.element(fmt.Sprintf("@graph[%d]", i), n, 0)
	}
	c.references()
	c.subject(doc.Graph, subject)
	return errors.Join(c.faults...)
}

// spdx3Checker collects the faults of a document.
type spdx3Checker struct {
	vocabulary
	checker
	ids   map[string]map[string]any
	named []string // references to elements
}

// element checks an element with those inside it.
func (c *spdx3Checker) element(path string, n map[string]any, depth int) {
	kind, _ := n["type"].(string)
	class, ok := c.classes[kind]
	switch {
	case depth > maxNesting:
		c.fault("%s: nested deeper than %d", path, maxNesting)
		return
	case !ok:
		c.fault("%s.type: got %v, want a class of Core, Software, AI, Dataset or SimpleLicensing", path, n["type"])
		return
	}
	for _, key := range slices.Sorted(maps.Keys(n)) {
		t, ok := class[key]
		if !ok {
			c.fault("%s: unknown property %q of %s", path, key, kind)
			continue
		}
		c.property(path+"."+key, t, n[key], depth)
	}
	for _, key := range slices.Sorted(maps.Keys(class)) {
		if _, ok := n[key]; class[key].required && !ok {
			c.fault("%s: %s without %s", path, kind, key)
		}
	}
	for _, key := range []string{"spdxId", "@id"} {
		id, ok := n[key].(string)
		if !ok {
			continue
		}
		if c.ids[id] != nil {
			c.fault("%s: duplicate id %q", path, id)
		}
		c.ids[id] = n
	}
	if kind == "Hash" {
		c.hash(path, n)
	}
}

// property checks the values of a property.
func (c *spdx3Checker) property(path string, t term, value any, depth int) {
	list, ok := value.([]any)
	if ok != t.many {
		c.fault("%s: got %s, want %s", path, shape(value), map[bool]string{true: "a list", false: "one value"}[t.many])
		return
	}
	if !ok {
		list = []any{value}
	}
	if t.required && len(list) == 0 {
		c.fault("%s: empty", path)
	}
	for _, v := range list {
		c.value(path, t.kind, v, depth)
	}
}

// shape names the form of a value.
func shape(value any) string {
	if _, ok := value.([]any); ok {
		return "a list"
	}
	return fmt.Sprintf("%.40v", value)
}

// value checks one value.
func (c *spdx3Checker) value(path, kind string, value any, depth int) {
	text, isText := value.(string)
	switch kind {
	case "ref":
		if inner, ok := value.(map[string]any); ok {
			c.element(path, inner, depth+1)
			return
		}
		c.named = append(c.named, text)
	case "number":
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			if _, ok := value.(float64); !ok {
				c.fault("%s: got %.40v, want a number", path, value)
			}
		}
		return
	case "count":
		if n, ok := value.(float64); !ok || n < 0 || n != float64(int64(n)) {
			c.fault("%s: got %.40v, want a count", path, value)
		}
		return
	}
	if !isText || text == "" {
		c.fault("%s: got %.40v, want text", path, value)
		return
	}
	switch values, ok := c.values[kind]; {
	case kind == "time":
		const form = "2006-01-02T15:04:05Z"
		if when, err := time.Parse(form, text); err != nil || when.Format(form) != text {
			c.fault("%s: got %q, want YYYY-MM-DDThh:mm:ssZ", path, text)
		}
	case kind == "license":
		if _, err := spdx.Parse(text); err != nil {
			c.fault("%s: invalid license %q: %v", path, text, err)
		}
	case ok:
		if _, ok := values[text]; !ok {
			c.fault("%s: got %q, want one of %s", path, text, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
		}
	}
}

// hash checks the digits of a digest.
func (c *spdx3Checker) hash(path string, n map[string]any) {
	algorithm, _ := n["algorithm"].(string)
	value, _ := n["hashValue"].(string)
	if _, err := hex.DecodeString(value); err != nil || strconv.Itoa(len(value)) != c.values["hash"][algorithm] {
		c.fault("%s: invalid %s hash %q", path, algorithm, value)
	}
}

// references checks that each reference leads to an element.
func (c *spdx3Checker) references() {
	external := map[string]bool{}
	for _, n := range c.ids {
		list, _ := n["import"].([]any)
		for _, one := range list {
			if m, ok := one.(map[string]any); ok {
				id, _ := m["externalSpdxId"].(string)
				external[id] = true
			}
		}
	}
	for _, id := range c.named {
		if c.ids[id] == nil && !external[id] && !strings.Contains(spdx3Individuals, " "+id+" ") {
			c.fault("reference to %q: no such element", id)
		}
	}
}

// subject checks that one document leads to a bill, and that to the artifact.
func (c *spdx3Checker) subject(graph []map[string]any, subject string) {
	var documents []map[string]any
	for _, n := range graph {
		if n["type"] == "SpdxDocument" {
			documents = append(documents, n)
		}
	}
	if len(documents) != 1 {
		c.fault("SpdxDocument: got %d, want 1", len(documents))
		return
	}
	for _, bill := range c.roots(documents[0]) {
		if bill["type"] != "software_Sbom" {
			continue
		}
		for _, n := range c.roots(bill) {
			if subject == "" || verifiedBy(n, subject) {
				return
			}
		}
		c.fault("software_Sbom: the bill is about another artifact: want the hash %s", subject)
		return
	}
	c.fault("SpdxDocument.rootElement: no software_Sbom")
}

// roots returns the elements that a collection begins with.
func (c *spdx3Checker) roots(n map[string]any) (out []map[string]any) {
	list, _ := n["rootElement"].([]any)
	for _, id := range list {
		text, _ := id.(string)
		if one := c.ids[text]; one != nil {
			out = append(out, one)
		}
	}
	return out
}

// verifiedBy reports whether an element has the digest.
func verifiedBy(n map[string]any, digest string) bool {
	list, _ := n["verifiedUsing"].([]any)
	return slices.ContainsFunc(list, func(one any) bool {
		h, _ := one.(map[string]any)
		return h["algorithm"] == "sha256" && h["hashValue"] == strings.TrimPrefix(digest, "sha256:")
	})
}
