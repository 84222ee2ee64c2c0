// Package bom writes and checks evidence about artifacts: bills of materials in CycloneDX
// 1.6 and SPDX 3.0.1 with machine learning models as components, and SLSA provenance v1.
//
// A bill lists every file with its digest under the module that it belongs to, and the
// dependencies between modules. [Check] verifies properties that the schema of the format leaves
// open: that references lead to components, that names are unique, that digests have
// their length, and that the bill is about the artifact that it is attached to.
//
// The documents LICENSE and NOTICE collect the license texts and notices of the modules. They
// follow from the files of the modules alone, so that a reader can write them again and
// compare; they do not replace legal advice.
package bom

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/spdx"
)

// Artifact is the subject of a bill: a build for one target, or a module.
type Artifact struct {
	Name, Version, Digest string
	Description, License  string
	Modules               []Module // of a build
	Files                 []File   // of no module
	Metrics               []Metric // of the artifact as a whole
}

// Metric is a figure of an evaluation, with its interval.
type Metric struct {
	Type, Value, Slice, Low, High string
}

// Module is one module of an artifact.
type Module struct {
	Name, Version, Digest string
	Type                  abi.ModuleType
	Description, License  string
	Quant                 string // precision of the weights; "": as trained
	Inputs, Outputs       []string
	DependsOn             []string  // names of modules
	Datasets              []Dataset // that it was trained on; nil: unknown
	Files                 []File
}

// Dataset is data that a module was trained on. Only its name is required.
type Dataset struct {
	Name, License, Source string
	Digest                string // "sha256:" and 64 hex digits
}

// File is one file with its digest, "sha256:" and 64 hex digits.
type File struct {
	Path, Digest string
	Format       string
}

// Options configures a bill.
type Options struct {
	Time    time.Time // of the bill
	Version string    // of mm
	// Supplier names the publisher, which SPDX 3 demands. Empty: unnamed.
	Supplier string
	// Newest writes CycloneDX 1.7 instead of 1.6, which more programs read.
	Newest bool
}

// CycloneDX returns the bill of an artifact in JSON. It is deterministic.
func CycloneDX(a Artifact, opt Options) ([]byte, error) {
	root := component(cyclonedx.ComponentTypeApplication, a.Name, a.Version, a.Digest, a.Description, a.License)
	if len(a.Modules) == 1 && a.Modules[0].Digest == a.Digest || len(a.Metrics) > 0 {
		root.Type = cyclonedx.ComponentTypeMachineLearningModel
	}
	doc := cyclonedx.NewBOM()
	doc.SpecVersion = cyclonedx.SpecVersion1_6
	if opt.Newest {
		doc.SpecVersion = cyclonedx.SpecVersion1_7
	}
	doc.JSONSchema = "http://cyclonedx.org/schema/bom-" + doc.SpecVersion.String() + ".schema.json"
	doc.SerialNumber = "urn:uuid:" + uuid(a.Digest)
	doc.Metadata = &cyclonedx.Metadata{
		Timestamp: opt.Time.UTC().Format(time.RFC3339),
		Tools:     &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{Type: cyclonedx.ComponentTypeApplication, Name: "mm", Version: opt.Version}}},
		Component: &root,
	}
	refs := map[string]string{}
	for _, m := range a.Modules {
		refs[m.Name] = m.Name + "@" + m.Version
	}
	var parts []cyclonedx.Component
	top := cyclonedx.Dependency{Ref: root.BOMRef, Dependencies: &[]string{}}
	edges := []cyclonedx.Dependency{}
	data := map[string]bool{}
	for _, m := range a.Modules {
		for _, one := range m.Datasets {
			if c := datasetComponent(one); !data[c.BOMRef] {
				data[c.BOMRef], parts = true, append(parts, c)
			}
		}
		c, err := moduleComponent(m)
		if err != nil {
			return nil, err
		}
		if c.BOMRef == root.BOMRef { // the artifact is this module
			root.ModelCard, root.Components = c.ModelCard, c.Components
			continue
		}
		parts = append(parts, c)
		*top.Dependencies = append(*top.Dependencies, c.BOMRef)
		edge := cyclonedx.Dependency{Ref: c.BOMRef}
		for _, name := range m.DependsOn {
			if ref, ok := refs[name]; ok {
				edge.Dependencies = appendRef(edge.Dependencies, ref)
			}
		}
		edges = append(edges, edge)
	}
	for _, f := range a.Files {
		parts = append(parts, fileComponent(root.BOMRef, f))
	}
	addMetrics(&root, a.Metrics)
	edges = append([]cyclonedx.Dependency{top}, edges...)
	doc.Components, doc.Dependencies = &parts, &edges
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(doc, doc.SpecVersion); err != nil {
		return nil, fmt.Errorf("encoding the bill of materials: %w", err)
	}
	return out.Bytes(), Check(out.Bytes(), a.Digest)
}

// appendRef adds a reference to a list that may be absent.
func appendRef(list *[]string, ref string) *[]string {
	if list == nil {
		return &[]string{ref}
	}
	next := append(*list, ref)
	slices.Sort(next)
	return &next
}

// component returns a component that is itself an artifact.
func component(kind cyclonedx.ComponentType, name, version, digest, description, license string) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: name + "@" + version, Type: kind, Name: name, Version: version, Description: description,
		Hashes: hashes(digest), Licenses: licenses(license),
		PackageURL: "pkg:oci/" + url.PathEscape(strings.ToLower(name)) + "@" + url.QueryEscape(digest),
	}
}

// componentTypes maps the types of modules.
var componentTypes = map[abi.ModuleType]cyclonedx.ComponentType{
	abi.Skill: cyclonedx.ComponentTypeApplication, abi.Router: cyclonedx.ComponentTypeData, abi.Sandbox: cyclonedx.ComponentTypeData,
}

// moduleComponent returns a module with its files.
func moduleComponent(m Module) (cyclonedx.Component, error) {
	if m.Name == "" || m.Version == "" {
		return cyclonedx.Component{}, fmt.Errorf("module %q: name and version are required", m.Name)
	}
	kind, ok := componentTypes[m.Type]
	if !ok {
		kind = cyclonedx.ComponentTypeMachineLearningModel
	}
	c := component(kind, m.Name, m.Version, m.Digest, m.Description, m.License)
	properties := []cyclonedx.Property{{Name: abi.AnnotationType, Value: string(m.Type)}}
	if m.Quant != "" {
		properties = append(properties, cyclonedx.Property{Name: abi.AnnotationQuant, Value: m.Quant})
	}
	c.Properties = &properties
	if kind == cyclonedx.ComponentTypeMachineLearningModel {
		c.ModelCard = &cyclonedx.MLModelCard{ModelParameters: &cyclonedx.MLModelParameters{
			Task: string(m.Type), Inputs: formats(m.Inputs), Outputs: formats(m.Outputs), Datasets: datasetRefs(m.Datasets),
		}}
	}
	var files []cyclonedx.Component
	for _, f := range m.Files {
		files = append(files, fileComponent(c.BOMRef, f))
	}
	if files != nil {
		c.Components = &files
	}
	return c, nil
}

// addMetrics adds figures to the model card of a component.
func addMetrics(c *cyclonedx.Component, list []Metric) {
	if len(list) == 0 {
		return
	}
	if c.ModelCard == nil {
		c.ModelCard = &cyclonedx.MLModelCard{}
	}
	var all []cyclonedx.MLPerformanceMetric
	for _, m := range list {
		all = append(all, cyclonedx.MLPerformanceMetric{Type: m.Type, Value: m.Value, Slice: m.Slice, ConfidenceInterval: &cyclonedx.MLPerformanceMetricConfidenceInterval{LowerBound: m.Low, UpperBound: m.High}})
	}
	c.ModelCard.QuantitativeAnalysis = &cyclonedx.MLQuantitativeAnalysis{PerformanceMetrics: &all}
}

// Metrics returns the figures of a bill about the artifact as a whole, in order.
func Metrics(data []byte) (out []Metric, err error) {
	var doc cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&doc); err != nil {
		return nil, fmt.Errorf("bill of materials: %w", err)
	}
	if doc.Metadata == nil || doc.Metadata.Component == nil || doc.Metadata.Component.ModelCard == nil {
		return nil, nil
	}
	all := doc.Metadata.Component.ModelCard.QuantitativeAnalysis
	if all == nil || all.PerformanceMetrics == nil {
		return nil, nil
	}
	for _, m := range *all.PerformanceMetrics {
		one := Metric{Type: m.Type, Value: m.Value, Slice: m.Slice}
		if m.ConfidenceInterval != nil {
			one.Low, one.High = m.ConfidenceInterval.LowerBound, m.ConfidenceInterval.UpperBound
		}
		out = append(out, one)
	}
	return out, nil
}

// ref identifies a dataset: of one name, those of another digest are others.
func (d Dataset) ref() string {
	if d.Digest == "" {
		return "dataset/" + d.Name
	}
	return "dataset/" + d.Name + "@" + d.Digest
}

// isURL reports whether the source is an absolute URL, which the formats demand.
func (d Dataset) isURL() bool {
	u, err := url.Parse(d.Source)
	return err == nil && u.Scheme != "" && u.Host != ""
}

// datasetComponent returns a dataset.
func datasetComponent(d Dataset) cyclonedx.Component {
	c := cyclonedx.Component{BOMRef: d.ref(), Type: cyclonedx.ComponentTypeData, Name: d.Name, Hashes: hashes(d.Digest), Licenses: licenses(d.License)}
	c.Data = &[]cyclonedx.ComponentData{{Type: cyclonedx.ComponentDataTypeDataset, Name: d.Name}}
	if d.isURL() {
		c.ExternalReferences = &[]cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeDistribution, URL: d.Source}}
	}
	return c
}

// datasetRefs lists references to datasets; nil without any.
func datasetRefs(list []Dataset) *[]cyclonedx.MLDatasetChoice {
	var out []cyclonedx.MLDatasetChoice
	for _, d := range list {
		out = append(out, cyclonedx.MLDatasetChoice{Ref: d.ref()})
	}
	if out == nil {
		return nil
	}
	return &out
}

// formats lists the inputs or outputs of a model card.
func formats(names []string) *[]cyclonedx.MLInputOutputParameters {
	if len(names) == 0 {
		return nil
	}
	var list []cyclonedx.MLInputOutputParameters
	for _, n := range names {
		list = append(list, cyclonedx.MLInputOutputParameters{Format: n})
	}
	return &list
}

// fileComponent returns a file of the component owner.
func fileComponent(owner string, f File) cyclonedx.Component {
	c := cyclonedx.Component{BOMRef: owner + "#" + f.Path, Type: cyclonedx.ComponentTypeFile, Name: f.Path, Hashes: hashes(f.Digest)}
	if f.Format != "" {
		c.Properties = &[]cyclonedx.Property{{Name: abi.AnnotationFormat, Value: f.Format}}
	}
	return c
}

// hashes lists a digest of SHA-256.
func hashes(digest string) *[]cyclonedx.Hash {
	value, ok := strings.CutPrefix(digest, "sha256:")
	if !ok {
		return nil
	}
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: value}}
}

// licenses lists a license as an SPDX expression; text that is not one is a name.
func licenses(license string) *cyclonedx.Licenses {
	if license == "" {
		return nil
	}
	if _, err := spdx.Parse(license); err != nil {
		return &cyclonedx.Licenses{{License: &cyclonedx.License{Name: license}}}
	}
	return &cyclonedx.Licenses{{Expression: license}}
}

// uuid returns the UUID of version 5 of a digest, below the URL namespace.
func uuid(digest string) string {
	space, _ := hex.DecodeString("6ba7b8119dad11d180b400c04fd430c8") // RFC 9562, appendix A
	h := sha1.Sum(append(space, "https://mm-abi.org/artifact/"+digest...))
	h[6], h[8] = h[6]&0x0f|0x50, h[8]&0x3f|0x80
	s := hex.EncodeToString(h[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
