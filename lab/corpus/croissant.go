// Croissant 1.1 is the metadata of data sets in
// JSON-LD (MLCommons).
//
// [ExportCroissant] describes a data set of mm data build; [ImportCroissant] converts a
// description of local files to a manifest. Features that a manifest lacks are
// refused by name.

package corpus

import (
	"encoding/json"
	"fmt"
	"strings"

	"mm-abi.org/mm/internal/diag"
)

// The versions of the format.
const (
	conforms  = "http://mlcommons.org/croissant/1.1"
	conforms0 = "http://mlcommons.org/croissant/1.0"
)

// CroissantFile is the usual name of the metadata.
const CroissantFile = "croissant.json"

// The media types of files.
const (
	typeJSONL   = "application/jsonlines"
	typeParquet = "application/x-parquet"
	typeText    = "text/plain"
)

// jsonContext is the jsonContext of the specification.
const jsonContext = `{"@language":"en","@vocab":"https://schema.org/","citeAs":"cr:citeAs","column":"cr:column","conformsTo":"dct:conformsTo",
"cr":"http://mlcommons.org/croissant/","rai":"http://mlcommons.org/croissant/RAI/","data":{"@id":"cr:data","@type":"@json"},
"dataType":{"@id":"cr:dataType","@type":"@vocab"},"dct":"http://purl.org/dc/terms/","equivalentProperty":"cr:equivalentProperty",
"examples":{"@id":"cr:examples","@type":"@json"},"extract":"cr:extract","field":"cr:field","fileProperty":"cr:fileProperty",
"fileObject":"cr:fileObject","fileSet":"cr:fileSet","format":"cr:format","includes":"cr:includes","isLiveDataset":"cr:isLiveDataset",
"jsonPath":"cr:jsonPath","key":"cr:key","md5":"cr:md5","parentField":"cr:parentField","path":"cr:path","recordSet":"cr:recordSet",
"references":"cr:references","regex":"cr:regex","repeated":"cr:repeated","replace":"cr:replace","samplingRate":"cr:samplingRate",
"sc":"https://schema.org/","separator":"cr:separator","source":"cr:source","subField":"cr:subField","transform":"cr:transform"}`

// id refers to a node.
type id struct {
	ID string `json:"@id"`
}

type metadata struct {
	Context     json.RawMessage `json:"@context"`
	Type        string          `json:"@type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	ConformsTo  string          `json:"conformsTo"`
	License     string          `json:"license"`
	CiteAs      string          `json:"citeAs"`
	Version     string          `json:"version"`
	SameAs      string          `json:"identifier"` // the lineage
	Files       []fileObject    `json:"distribution"`
	Sets        []recordSet     `json:"recordSet"`
	Collection  string          `json:"rai:dataCollection,omitempty"`
	Sensitive   string          `json:"rai:personalSensitiveInformation,omitempty"`
}

type fileObject struct {
	Type   string `json:"@type"`
	ID     string `json:"@id"`
	Name   string `json:"name"`
	URL    string `json:"contentUrl"`
	Size   string `json:"contentSize"`
	Format string `json:"encodingFormat"`
	SHA256 string `json:"sha256"`
}

type recordSet struct {
	Type   string  `json:"@type"`
	ID     string  `json:"@id"`
	Name   string  `json:"name"`
	Fields []field `json:"field"`
}

type field struct {
	Type     string `json:"@type"`
	ID       string `json:"@id"`
	Name     string `json:"name"`
	DataType string `json:"dataType"`
	Source   struct {
		File    id                `json:"fileObject"`
		Extract map[string]string `json:"extract"`
	} `json:"source"`
}

// ExportCroissant returns the metadata of a data set.
func ExportCroissant(l *Lineage) ([]byte, error) {
	if l.Format != JSONL {
		var list diag.List
		list.Add(diag.CroissantPart, diag.Pos{}, "the data set has conversations (messages), want text, or prompt and answer", "")
		return nil, list.Err()
	}
	m := metadata{
		Context: json.RawMessage(jsonContext), Type: "sc:Dataset", Name: l.Name, Description: l.Description, ConformsTo: conforms,
		License: licenseURL(l.License), CiteAs: l.Cite, Version: "1.0.0", SameAs: l.Digest, Collection: collection(l), Sensitive: sensitive(l),
	}
	if m.Description == "" {
		m.Description = fmt.Sprintf("%s, built by mm from %d sources", l.Name, len(l.Sources))
	}
	if m.CiteAs == "" {
		m.CiteAs = fmt.Sprintf("%s, lineage %s", l.Name, l.Digest)
	}
	for _, f := range l.Files {
		m.Files = append(m.Files, fileObject{"cr:FileObject", f.File, f.File, f.File, fmt.Sprintf("%d B", f.Bytes), typeJSONL, f.SHA256})
		set := recordSet{Type: "cr:RecordSet", ID: f.Split, Name: f.Split}
		for _, k := range append([]string{"id", "source"}, l.Keys...) {
			one := field{Type: "cr:Field", ID: f.Split + "/" + k, Name: k, DataType: "sc:Text"}
			one.Source.File, one.Source.Extract = id{f.File}, map[string]string{"column": k}
			set.Fields = append(set.Fields, one)
		}
		m.Sets = append(m.Sets, set)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// licenseURL returns the address of a license, or the expression as it is.
func licenseURL(expression string) string {
	if strings.ContainsAny(expression, " ()") || strings.HasPrefix(expression, "LicenseRef-") {
		return expression
	}
	return spdxList + expression
}

// collection describes the sources.
func collection(l *Lineage) string {
	var parts []string
	for _, s := range l.Sources {
		parts = append(parts, fmt.Sprintf("%s (%s, sha256:%s): %d of %d rows", s.ID, s.License, s.SHA256, s.Counts.Kept, s.Counts.Rows))
	}
	return strings.Join(parts, "; ")
}

// sensitive describes the findings of personal data.
func sensitive(l *Lineage) string {
	if l.PII == "" {
		return ""
	}
	total, dropped := int64(0), int64(0)
	for _, s := range l.Sources {
		dropped += s.Counts.PII
		for _, n := range s.PII {
			total += n
		}
	}
	return fmt.Sprintf("policy %s: %d findings, %d documents dropped", l.PII, total, dropped)
}
