package card

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// unknown is the text for what nothing states.
const unknown = "unknown"

// JSON returns the card in JSON.
func (c *Card) JSON() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(c)
	return out.Bytes(), err
}

// Markdown returns the card as README.md of a model hub, with YAML front matter. It is
// deterministic. The front matter of the publisher's README stays; figures are added to it
// if it has none.
func (c *Card) Markdown() []byte {
	var b strings.Builder
	front, readme := c.split()
	if front == "" {
		c.frontMatter(&b)
	} else {
		b.WriteString("---\n" + front)
		if !strings.Contains("\n"+front, "\nmodel-index:") {
			c.modelIndex(&b)
		}
		b.WriteString("---\n")
	}
	if readme == "" {
		fmt.Fprintf(&b, "# %s %s\n\n%s\n", text(c.Name), text(c.Version), or(text(c.Description)))
	} else {
		b.WriteString(readme + "\n")
	}
	c.facts(&b)
	c.modules(&b)
	c.evaluations(&b)
	fmt.Fprintf(&b, "\n## Training data\n\n%s\n", list(c.Datasets))
	c.evidence(&b)
	return []byte(b.String())
}

// split returns the front matter of the publisher's README and the rest.
func (c *Card) split() (front, rest string) {
	rest = strings.TrimSpace(strings.ReplaceAll(c.Readme, "\r\n", "\n"))
	if after, ok := strings.CutPrefix(rest, "---\n"); ok {
		if front, body, ok := strings.Cut(after, "\n---\n"); ok {
			return front + "\n", strings.TrimSpace(body)
		}
	}
	return "", rest
}

// frontMatter writes the metadata that hubs read.
func (c *Card) frontMatter(b *strings.Builder) {
	license := HubLicense(c.License)
	fmt.Fprintf(b, "---\nlicense: %s\n", license)
	if license == "other" {
		fmt.Fprintf(b, "license_name: %q\n", c.License)
		if len(c.Texts) > 0 {
			fmt.Fprintf(b, "license_link: %q\n", c.Texts[0])
		}
	}
	b.WriteString("library_name: mm\n")
	if c.Task != "" {
		fmt.Fprintf(b, "pipeline_tag: %s\n", c.Task)
	}
	for _, part := range []struct {
		key    string
		values []string
	}{{"language", c.Languages}, {"datasets", c.Datasets}, {"tags", []string{"mm-abi"}}} {
		if len(part.values) > 0 {
			fmt.Fprintf(b, "%s:\n", part.key)
		}
		for _, v := range part.values {
			fmt.Fprintf(b, "- %s\n", plain(v))
		}
	}
	c.modelIndex(b)
	b.WriteString("---\n")
}

// plain returns a text for YAML: as it is if that is safe, or quoted.
func plain(s string) string {
	if s == "mm-abi" {
		return s
	}
	return fmt.Sprintf("%q", s)
}

// modelIndex writes the figures in the form of hubs. The value has all digits of the
// signed one.
func (c *Card) modelIndex(b *strings.Builder) {
	if len(c.Evaluations) == 0 {
		return
	}
	task := c.Task
	if task == "" {
		task = "other"
	}
	fmt.Fprintf(b, "model-index:\n- name: %q\n  results:\n", c.Name)
	for _, s := range c.Evaluations {
		for _, t := range s.Tasks {
			fmt.Fprintf(b, "  - task:\n      type: %s\n    dataset:\n      name: %q\n      type: %q\n", task, t.Slice(), t.Name)
			if t.Data != "" {
				fmt.Fprintf(b, "      revision: %q\n", t.Data)
			}
			b.WriteString("    metrics:\n")
			for _, f := range t.Figures {
				fmt.Fprintf(b, "    - type: %q\n      name: %q\n      value: %s\n      args: {n: %d, low: %s, high: %s, interval: %q, suite: %q, engine: %q, signer: %q}\n",
					f.Metric, f.Name(), Number(f.Value), f.N, Number(f.Low), Number(f.High), f.Method, t.Suite, s.Engine, s.Signer)
			}
		}
	}
}

// facts writes the statements of the manifest.
func (c *Card) facts(b *strings.Builder) {
	b.WriteString("\n## Artifact\n\n| | |\n|---|---|\n")
	rows := [][2]string{{"Manifest", code(c.Digest)}}
	if c.Target != "" {
		rows = append(rows, [2]string{"Target", text(c.Target)})
	}
	rows = append(rows, [][2]string{
		{"License", or(text(c.License))}, {"License texts", list(c.Texts)}, {"Created", or(text(c.Created))},
		{"Inputs", list(c.Inputs)}, {"Outputs", list(c.Outputs)}, {"Languages", list(c.Languages)}, {"Intended uses, limits and biases", unknown},
	}...)
	if c.Readme != "" {
		rows[len(rows)-1][1] = "see above; mm does not check the text"
	}
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %s |\n", r[0], r[1])
	}
}

func (c *Card) modules(b *strings.Builder) {
	b.WriteString("\n## Modules\n\n")
	if len(c.Modules) == 0 {
		b.WriteString(unknown + "\n")
		return
	}
	b.WriteString("| module | version | type | license | precision | digest |\n|---|---|---|---|---|---|\n")
	for _, m := range c.Modules {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", text(m.Name), text(m.Version), text(m.Type), or(text(m.License)), or(text(m.Quant)), code(m.Digest))
	}
}

// evaluations writes each figure with n, its interval, the suite and the engine.
func (c *Card) evaluations(b *strings.Builder) {
	b.WriteString("\n## Evaluations\n\n")
	if len(c.Evaluations) == 0 {
		b.WriteString(unknown + ": no evaluation by a trusted key\n")
		return
	}
	b.WriteString("| task | metric | value | 95 % interval | n | shots | suite | engine | signed by |\n|---|---|---|---|---|---|---|---|---|\n")
	c.figures(func(s Signed, t Task, f Figure) {
		n := fmt.Sprint(f.N)
		if t.Original > f.N {
			n += fmt.Sprintf(" of %d", t.Original)
		}
		if f.Clusters > 0 {
			n += fmt.Sprintf(" in %d clusters", f.Clusters)
		}
		better := map[bool]string{false: "↓", true: "↑"}[f.Higher]
		fmt.Fprintf(b, "| %s | %s %s | %.4f | %.4f to %.4f (%s) | %s | %d | %s | %s | %s |\n",
			text(t.Name), text(f.Name()), better, f.Value, f.Low, f.High, text(f.Method), n, t.Shots, code(t.Suite), text(s.Engine), code(short(s.Signer)))
	})
	for _, s := range c.Evaluations {
		for _, t := range s.Tasks {
			if t.Cut > 0 {
				fmt.Fprintf(b, "\nThe start of %d questions of %s did not fit the context.\n", t.Cut, text(t.Name))
			}
		}
		for _, note := range s.left() {
			fmt.Fprintf(b, "\nNot in %s: %s.\n", ResultsFolder, text(note))
		}
		if s.Failed {
			fmt.Fprintf(b, "\n%s states that a limit was missed.\n", code(short(s.Signer)))
		}
	}
}

func (c *Card) evidence(b *strings.Builder) {
	b.WriteString("\n## Signatures and evidence\n\n")
	var keys []string
	for _, id := range c.Signers {
		keys = append(keys, code(short(id)))
	}
	released := strings.Join(keys, ", ")
	if released == "" {
		released = "unknown: no release signature by a trusted key"
	}
	fmt.Fprintf(b, "- released by: %s\n- evidence: %s\n", released, list(c.Evidence))
	if c.Invalid > 0 {
		fmt.Fprintf(b, "- statements with invalid contents: %d\n", c.Invalid)
	}
	fmt.Fprintf(b, "\n`mm card --check` compares this card with the signed statements.\n")
}

// short returns the first digits of a key's id.
func short(id string) string { return id[:min(12, len(id))] }

// or returns unknown for an empty text.
func or(s string) string {
	if s == "" {
		return unknown
	}
	return s
}

// list joins texts; none are unknown.
func list(all []string) string {
	var out []string
	for _, s := range all {
		out = append(out, text(s))
	}
	return or(strings.Join(out, ", "))
}

// text escapes a text for a cell of a table.
func text(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "`", "\\`", "[", `\[`, "]", `\]`, "*", `\*`, "_", `\_`).Replace(s)
}

// code returns a text without special characters as code; others as escaped text.
func code(s string) string {
	if s == "" {
		return unknown
	}
	if strings.ContainsAny(s, "`|\n\r") {
		return text(s)
	}
	return "`" + s + "`"
}

// Difference returns the first line in which a file differs from the card, or "".
func (c *Card) Difference(data []byte) string { return Difference(c.Markdown(), data) }

// Difference returns the first line in which a file differs from the wanted text, or "".
// Line ends of Windows count as those of Unix.
func Difference(text, data []byte) string {
	want := strings.Split(string(text), "\n")
	got := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	for i := range max(len(want), len(got)) {
		line := func(all []string) string {
			if i < len(all) {
				return all[i]
			}
			return "nothing"
		}
		if i >= len(want) || i >= len(got) || got[i] != want[i] {
			return fmt.Sprintf("line %d: got %.200q, want %.200q", i+1, line(got), line(want))
		}
	}
	return ""
}
