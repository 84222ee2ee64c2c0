package corpus

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/spdx"
	"mm-abi.org/mm/schemas"
)

// Limits of metadata: bytes, nesting, files and record sets.
const (
	MaxBytes          = 16 << 20
	maxCroissantDepth = 64
	maxCroissantNodes = 4096
)

const spdxList = "https://spdx.org/licenses/"

// CroissantOptions complete what metadata lack.
type CroissantOptions struct {
	Text    string // column of the text; if empty, text, prompt and answer, or messages
	License string // SPDX expression; if empty, that of the metadata
}

// node is an object of JSON-LD, in which keys may have prefixes.
type node map[string]any

// get returns a value by its name without a prefix.
func (n node) get(name string) any {
	for _, prefix := range []string{"", "cr:", "sc:", "ml:", "dct:", "http://mlcommons.org/croissant/", "https://schema.org/"} {
		if v, ok := n[prefix+name]; ok {
			return v
		}
	}
	return nil
}

func (n node) text(name string) string {
	switch v := n.get(name).(type) {
	case string:
		return v
	case []any:
		if len(v) == 1 {
			s, _ := v[0].(string)
			return s
		}
	case map[string]any:
		s, _ := v["@id"].(string)
		return s
	}
	return ""
}

// nodes returns a list of objects, or one.
func (n node) nodes(name string) (all []node) {
	v := n.get(name)
	if m, ok := v.(map[string]any); ok {
		return []node{m}
	}
	list, _ := v.([]any)
	for _, one := range list {
		if m, ok := one.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// kind returns the type without a prefix.
func (n node) kind() string {
	s := n.text("@type")
	return s[strings.LastIndexAny(s, ":/")+1:]
}

// importer collects faults.
type importer struct {
	file string
	opt  CroissantOptions
	list diag.List
}

func (i *importer) bad(format string, args ...any) {
	i.list.Add(diag.BadCroissant, diag.Pos{File: i.file}, fmt.Sprintf(format, args...), "")
}

func (i *importer) unsupported(format string, args ...any) {
	i.list.Add(diag.CroissantPart, diag.Pos{File: i.file}, fmt.Sprintf(format, args...), "")
}

// ImportCroissant converts metadata to a manifest, as YAML. The files are those of the
// metadata, below the folder of the manifest.
func ImportCroissant(file string, data []byte, opt CroissantOptions) ([]byte, diag.List) {
	i := &importer{file: file, opt: opt}
	m := i.manifest(data)
	if i.list.Failed() {
		return nil, i.list
	}
	out, err := schemas.Encode(m)
	if err != nil {
		i.bad("%v", err)
		return nil, i.list
	}
	if _, list := Parse(file, out); list.Failed() {
		for _, d := range list {
			if d.Code != diag.SourceLicense { // the user decides, and mm data check reports it
				i.list = append(i.list, diag.Diagnostic{Severity: d.Severity, Code: d.Code, Pos: diag.Pos{File: file}, Summary: d.Summary, Detail: d.Detail, Hint: d.Hint})
			}
		}
	}
	return out, i.list
}

func (i *importer) manifest(data []byte) map[string]any {
	root, err := parse(data)
	if err != nil {
		i.bad("%v", err)
		return nil
	}
	if c := root.text("conformsTo"); c != conforms && c != conforms0 {
		i.bad("conformsTo is %q, want %s", c, conforms)
	}
	license := i.opt.License
	if license == "" {
		license = licenseOf(root.text("license"))
	}
	if license == "" {
		i.bad("license %q has no SPDX identifier; name one with --license", root.text("license"))
	}
	files := i.files(root)
	var sources []any
	used := map[string]string{}
	for _, set := range root.nodes("recordSet") {
		if set.get("data") != nil { // an enumeration
			continue
		}
		if s := i.source(set, files); s != nil {
			if other, ok := used[s["path"].(string)]; ok {
				i.unsupported("record sets %q and %q read one file", other, set.text("@id"))
			}
			used[s["path"].(string)] = set.text("@id")
			s["license"] = license
			sources = append(sources, s)
		}
	}
	if len(sources) == 0 && !i.list.Failed() {
		i.bad("no record set with fields of a file")
	}
	m := map[string]any{"version": 1, "name": name(root.text("name")), "sources": sources}
	for key, value := range map[string]string{"description": root.text("description"), "cite": root.text("citeAs")} {
		if value != "" && len(value) <= 4096 {
			m[key] = value
		}
	}
	return m
}

// parse reads the object within the limits.
func parse(data []byte) (node, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, limit %d", len(data), MaxBytes)
	}
	depth, quoted := 0, false
	for k := 0; k < len(data); k++ {
		switch c := data[k]; {
		case quoted && c == '\\':
			k++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			depth++
		case !quoted && (c == '}' || c == ']'):
			depth--
		}
		if depth > maxCroissantDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxCroissantDepth)
		}
	}
	var root node
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	return root, nil
}

// files returns the file objects by their @id.
func (i *importer) files(root node) map[string]node {
	files := map[string]node{}
	all := root.nodes("distribution")
	if len(all) > maxCroissantNodes || len(root.nodes("recordSet")) > maxCroissantNodes {
		i.bad("more than %d files or record sets", maxCroissantNodes)
		return files
	}
	for _, f := range all {
		files[f.text("@id")] = f
	}
	return files
}

// source converts a record set to a source.
func (i *importer) source(set node, files map[string]node) map[string]any {
	label := set.text("@id")
	columns, from := map[string]bool{}, ""
	for _, f := range set.nodes("field") {
		column, file := i.column(label, f)
		if column == "" {
			return nil
		}
		if from != "" && file != from {
			i.unsupported("record set %q joins %q and %q", label, from, file)
			return nil
		}
		columns[column], from = true, file
	}
	f, ok := files[from]
	if !ok {
		i.bad("record set %q refers to %q, which is not a distribution", label, from)
		return nil
	}
	s := i.fileSource(from, f)
	if s == nil {
		return nil
	}
	fields := i.fields(columns)
	if fields == nil {
		var names []string
		for c := range columns {
			names = append(names, c)
		}
		slices.Sort(names)
		i.unsupported("record set %q has the columns %s: name the text with --text", label, strings.Join(names, ", "))
		return nil
	}
	s["id"], s["fields"] = name(label), fields
	return s
}

// column returns the column and the file of a field, "" if it is not supported.
func (i *importer) column(set string, f node) (column, file string) {
	label := f.text("@id")
	for _, key := range []string{"references", "subField", "parentField"} {
		if f.get(key) != nil {
			i.unsupported("field %q: %s", label, key)
			return "", ""
		}
	}
	sources := f.nodes("source")
	if len(sources) != 1 {
		i.bad("field %q of record set %q: %d sources, want 1", label, set, len(sources))
		return "", ""
	}
	s := sources[0]
	for _, key := range []string{"transform", "format", "field", "recordSet"} {
		if s.get(key) != nil {
			i.unsupported("field %q: %s", label, key)
			return "", ""
		}
	}
	if s.get("fileSet") != nil {
		i.unsupported("field %q: fileSet %q", label, s.text("fileSet"))
		return "", ""
	}
	file = s.text("fileObject")
	if file == "" {
		file = s.text("distribution")
	}
	for _, extract := range s.nodes("extract") {
		column = extract.text("column")
	}
	if column == "" || file == "" {
		i.unsupported("field %q: extract without a column of a file", label)
		return "", ""
	}
	return column, file
}

// fields maps columns to the keys of documents, nil if it is ambiguous.
func (i *importer) fields(columns map[string]bool) map[string]any {
	switch {
	case i.opt.Text != "" && columns[i.opt.Text]:
		return map[string]any{"text": i.opt.Text}
	case i.opt.Text != "":
		return nil
	case columns["text"]:
		return map[string]any{"text": "text"}
	case columns["prompt"] && columns["answer"]:
		return map[string]any{"prompt": "prompt", "answer": "answer"}
	case columns["messages"]:
		return map[string]any{"messages": "messages"}
	case len(columns) == 1:
		for c := range columns {
			return map[string]any{"text": c}
		}
	}
	return nil
}

// fileSource returns the source of a file object, without fields.
func (i *importer) fileSource(label string, f node) map[string]any {
	if f.kind() != "FileObject" {
		i.unsupported("%q is a %s", label, f.kind())
		return nil
	}
	if f.get("containedIn") != nil {
		i.unsupported("%q is contained in %q", label, f.text("containedIn"))
		return nil
	}
	s := map[string]any{}
	switch media := f.text("encodingFormat"); media {
	case typeJSONL, "application/x-ndjson", "application/jsonl":
		s["format"] = JSONL
	case typeParquet, "application/vnd.apache.parquet":
		s["format"] = Parquet
	case typeText:
		s["format"] = Text
	default:
		i.unsupported("%q has encodingFormat %q, want %s, %s or %s", label, media, typeJSONL, typeParquet, typeText)
		return nil
	}
	sum := strings.ToLower(f.text("sha256"))
	if !digestForm().MatchString(sum) {
		i.bad("%q: sha256 is %q, want 64 hex digits", label, sum)
		return nil
	}
	s["sha256"] = sum
	at := f.text("contentUrl")
	if u, err := url.Parse(at); err == nil && u.IsAbs() {
		s["origin"], at = at, path.Base(u.Path)
	}
	at = strings.TrimPrefix(at, "./")
	if !schemas.ValidPath(at) {
		i.list.Add(diag.BadPath, diag.Pos{File: i.file}, fmt.Sprintf("%q: contentUrl is %q", label, at), "")
		return nil
	}
	s["path"] = at
	return s
}

// digestForm matches a SHA-256 in hex.
var digestForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// licenseOf returns the SPDX expression of a license text or address, "" if it
// is not known.
func licenseOf(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(strings.Replace(text, "http://", "https://", 1), spdxList); ok {
		text = strings.TrimSuffix(strings.TrimSuffix(rest, "/"), ".html")
	}
	if m := creative().FindStringSubmatch(text); m != nil {
		text = "CC-" + strings.ToUpper(m[1]) + "-" + m[2]
	} else if strings.Contains(text, "creativecommons.org/publicdomain/zero/1.0") {
		text = "CC0-1.0"
	}
	if e, err := spdx.Parse(text); err == nil && len(e.IDs) > 0 {
		return e.String()
	}
	return ""
}

// creative matches the address of a license of Creative Commons.
var creative = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^https?://creativecommons\.org/licenses/(by(?:-nc)?(?:-sa|-nd)?)/([0-9]\.[0-9])/?`)
})

// name returns a valid name of a manifest.
func name(text string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(text) {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 100 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "data"
}
