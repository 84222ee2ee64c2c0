package bom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/spdx"
)

// spdx3Context is the JSON-LD context of SPDX 3.0.1.
const spdx3Context = "https://spdx.org/rdf/3.0.1/spdx-context.jsonld"

// spdx3 builds the graph of a document.
type spdx3 struct {
	base  string // of ids
	graph []node
	ids   []string          // of the elements
	terms map[string]string // ids of license expressions
}

// node is an element of a graph.
type node map[string]any

// SPDX3 returns the bill of an artifact as an SPDX 3.0.1 document in JSON-LD, with
// the profiles AI and, if a module names datasets, Dataset. It is deterministic.
func SPDX3(a Artifact, opt Options) ([]byte, error) {
	d := spdx3{base: "https://mm-abi.org/artifact/" + a.Digest + "#", terms: map[string]string{}}
	d.graph = []node{{
		"type": "CreationInfo", "@id": "_:creation", "specVersion": "3.0.1", "created": opt.Time.UTC().Format(time.RFC3339),
		"createdBy": []string{d.base + "creator"}, "createdUsing": []string{d.base + "tool"},
	}}
	supplier := opt.Supplier
	if supplier == "" {
		supplier = "unnamed publisher of " + a.Name
	}
	d.add("SoftwareAgent", "creator", node{"name": "mm"})
	d.add("Tool", "tool", node{"name": "mm " + opt.Version})
	d.add("Organization", "supplier", node{"name": supplier})
	root := d.base + "root"
	if len(a.Modules) == 1 && a.Modules[0].Digest == a.Digest {
		root = d.module(a.Modules[0])
	} else {
		d.build(a)
	}
	d.document(a, root)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]any{"@context": spdx3Context, "@graph": d.graph}); err != nil {
		return nil, fmt.Errorf("encoding the bill of materials: %w", err)
	}
	return out.Bytes(), CheckSPDX3(out.Bytes(), a.Digest)
}

// add appends an element and returns its id.
func (d *spdx3) add(kind, id string, n node) string {
	id = d.base + id
	n["type"], n["spdxId"], n["creationInfo"] = kind, id, "_:creation"
	d.graph, d.ids = append(d.graph, n), append(d.ids, id)
	return id
}

// relate adds a relationship if it leads to an element.
func (d *spdx3) relate(from, kind string, to ...string) {
	if len(to) == 0 {
		return
	}
	d.add("Relationship", kind+"/"+strings.TrimPrefix(from, d.base), node{"from": from, "relationshipType": kind, "to": to})
}

// build adds the package of a build, its modules and its files.
func (d *spdx3) build(a Artifact) {
	n := d.packageOf(a.Name, a.Version, a.Digest, a.Description)
	n["software_primaryPurpose"] = "model"
	root := d.add("software_Package", "root", n)
	d.license(root, a.License)
	var parts []string
	ids := map[string]string{}
	for _, m := range a.Modules {
		ids[m.Name] = d.module(m)
		parts = append(parts, ids[m.Name])
	}
	for _, m := range a.Modules {
		var needs []string
		for _, name := range m.DependsOn {
			if id, ok := ids[name]; ok {
				needs = append(needs, id)
			}
		}
		d.relate(ids[m.Name], "dependsOn", needs...)
	}
	d.relate(root, "contains", append(parts, d.files("root", a.Files)...)...)
}

// module adds a module with its files, license and datasets.
func (d *spdx3) module(m Module) string {
	kind, purpose := "ai_AIPackage", "model"
	if _, code := componentTypes[m.Type]; code {
		kind, purpose = "software_Package", "configuration"
	}
	if m.Type == abi.Skill {
		purpose = "application"
	}
	n := d.packageOf(m.Name, m.Version, m.Digest, m.Description)
	n["software_primaryPurpose"] = purpose
	if kind == "ai_AIPackage" {
		n["ai_typeOfModel"] = []string{string(m.Type)}
		if m.Quant != "" {
			n["ai_hyperparameter"] = []node{{"type": "DictionaryEntry", "key": "precision", "value": m.Quant}}
		}
	}
	local := "module/" + url.PathEscape(m.Name+"@"+m.Version)
	id := d.add(kind, local, n)
	d.license(id, m.License)
	var data []string
	for _, one := range m.Datasets {
		data = append(data, d.dataset(one))
	}
	if data != nil {
		d.relate(id, "trainedOn", data...)
	}
	d.relate(id, "contains", append(d.files(local, m.Files), data...)...)
	return id
}

// dataset adds a dataset once and returns its id.
func (d *spdx3) dataset(one Dataset) string {
	local := url.PathEscape(one.ref())
	if slices.Contains(d.ids, d.base+local) {
		return d.base + local
	}
	n := node{
		"name": one.Name, "dataset_datasetType": []string{"noAssertion"}, "software_primaryPurpose": "data",
		"software_packageVersion": "unversioned", "suppliedBy": d.base + "supplier",
	}
	if one.Digest != "" {
		n["verifiedUsing"] = sha256Of(one.Digest)
	}
	if one.isURL() {
		n["software_downloadLocation"] = one.Source
	}
	id := d.add("dataset_DatasetPackage", local, n)
	d.license(id, one.License)
	return id
}

// packageOf returns the properties that every package has.
func (d *spdx3) packageOf(name, version, digest, description string) node {
	n := node{
		"name": name, "software_packageVersion": version, "suppliedBy": d.base + "supplier", "verifiedUsing": sha256Of(digest),
		"software_packageUrl": "pkg:oci/" + url.PathEscape(strings.ToLower(name)) + "@" + url.QueryEscape(digest),
	}
	if description != "" {
		n["description"] = description
	}
	return n
}

// files adds files and returns their ids.
func (d *spdx3) files(owner string, files []File) (ids []string) {
	for _, f := range files {
		ids = append(ids, d.add("software_File", owner+"/file/"+url.PathEscape(f.Path), node{"name": f.Path, "verifiedUsing": sha256Of(f.Digest)}))
	}
	return ids
}

// sha256Of returns a digest as an integrity method.
func sha256Of(digest string) []node {
	return []node{{"type": "Hash", "algorithm": "sha256", "hashValue": strings.TrimPrefix(digest, "sha256:")}}
}

// license relates an element to its expression. Text that is not an expression becomes
// a reference to a license of that name.
func (d *spdx3) license(id, text string) {
	if text == "" {
		return
	}
	e, err := spdx.Parse(text)
	expression := e.String()
	if err != nil {
		expression = "LicenseRef-" + strings.Trim(strings.Map(refRune, text), "-")
		e.IDs = []string{expression}
	}
	term, ok := d.terms[expression]
	if !ok {
		n := node{"simplelicensing_licenseExpression": expression}
		var custom []node
		for _, one := range e.IDs {
			if strings.HasPrefix(one, "LicenseRef-") {
				custom = append(custom, node{"type": "DictionaryEntry", "key": one, "value": d.base + "term/" + one})
			}
		}
		if custom != nil {
			n["simplelicensing_customIdToUri"] = custom
		}
		term = d.add("simplelicensing_LicenseExpression", fmt.Sprintf("license/%d", len(d.terms)+1), n)
		d.terms[expression] = term
	}
	d.relate(id, "hasDeclaredLicense", term)
}

// refRune maps a character to one of a LicenseRef.
func refRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
		return r
	}
	return '-'
}

// document adds the bill and the document about it.
func (d *spdx3) document(a Artifact, root string) {
	profiles := []string{"ai", "core", "simpleLicensing", "software"}
	if slices.ContainsFunc(a.Modules, func(m Module) bool { return len(m.Datasets) > 0 }) {
		profiles = slices.Insert(profiles, 2, "dataset")
	}
	sbom := d.add("software_Sbom", "sbom", node{"rootElement": []string{root}, "element": slices.Clone(d.ids), "software_sbomType": []string{"build"}})
	elements := slices.Clone(d.ids)
	d.add("SpdxDocument", "document", node{
		"name": a.Name + " " + a.Version, "rootElement": []string{sbom}, "element": elements, "profileConformance": profiles,
	})
}
