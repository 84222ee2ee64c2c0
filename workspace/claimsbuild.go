package workspace

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
)

// sources holds the documents of one target of a build.
type sources struct {
	assembly  *builds.Assembly
	manifests map[string]*modules.Manifest
	lock      *builds.Lock  // nil: builds of older versions have none
	graph     *builds.Graph // nil: as the lock
	digest    string        // of the graph
}

// assembly compares a target with its assembly, and that with the lock, the graph
// and each module.yaml.
func (c *claims) assembly(ctx context.Context, a *artifact.Artifact) error {
	d, err := c.sources(ctx)
	if err != nil {
		return err
	}
	x := d.assembly
	c.annotations(a.Annotations, map[string]string{
		abi.AnnotationABI: string(x.ABI), abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: x.Name, abi.AnnotationVersion: x.Version,
		abi.AnnotationTarget: x.Target, abi.AnnotationLock: c.reader.layers[x.Name+".lock.yaml"].Descriptor.Digest.String(),
		ocispec.AnnotationVersion: x.Version, ocispec.AnnotationTitle: x.Name, ocispec.AnnotationLicenses: x.License, ocispec.AnnotationDescription: x.Description,
		ocispec.AnnotationCreated: a.Annotations[ocispec.AnnotationCreated],
	})
	want, head := assemble.Config(x, d.manifests)
	var formats []string
	for f := range head.Files {
		formats = append(formats, f)
	}
	slices.Sort(formats)
	c.config(a, want, formats)
	c.source(d)
	for _, p := range x.Parts() {
		c.component(d, p)
	}
	c.permissions(d)
	c.files(a, d)
	return c.legal(ctx, a, d)
}

// legal compares LICENSE and NOTICE with the modules; builds of older versions have none.
func (c *claims) legal(ctx context.Context, a *artifact.Artifact, d *sources) error {
	if c.reader.layers[bom.NoticeFile].Path == "" && c.reader.layers[bom.LicenseFile].Path == "" {
		return nil
	}
	parts, err := assemble.LegalParts(ctx, c.reader.src, d.assembly, d.manifests, a.Layers)
	if err != nil {
		return c.unreadable(bom.NoticeFile, err)
	}
	license, notice, err := bom.Documents(d.assembly.Name+" "+d.assembly.Version, d.assembly.License, parts)
	if err != nil {
		return c.unreadable(bom.NoticeFile, err)
	}
	for _, doc := range []struct {
		path string
		text []byte
	}{{bom.LicenseFile, license}, {bom.NoticeFile, notice}} {
		got, want := "none", "none"
		if l := c.reader.layers[doc.path]; l.Path != "" {
			got = l.Descriptor.Digest.String()
		}
		if doc.text != nil {
			want = digest.FromBytes(doc.text).String()
		}
		c.compare("digest of "+doc.path, got, want)
	}
	return nil
}

// sources reads the documents of a target.
func (c *claims) sources(ctx context.Context) (*sources, error) {
	data, err := c.document(ctx, builds.AssemblyFile)
	if err != nil {
		return nil, err
	}
	d := &sources{manifests: map[string]*modules.Manifest{}}
	if d.assembly, err = builds.ParseAssembly(data); err != nil {
		return nil, c.unreadable(builds.AssemblyFile, err)
	}
	for _, p := range d.assembly.Parts() {
		if d.manifests[p.Name], err = c.manifest(ctx, p.Manifest); err != nil {
			return nil, err
		}
	}
	if file := d.assembly.Name + ".lock.yaml"; c.reader.layers[file].Path != "" {
		if data, err = c.document(ctx, file); err != nil {
			return nil, err
		}
		lock, list := builds.ParseLock(file, data)
		if list.Failed() {
			return nil, c.unreadable(file, list.Err())
		}
		d.lock = lock
	}
	if file := d.assembly.Name + ".graph.yaml"; c.reader.layers[file].Path != "" {
		if data, err = c.document(ctx, file); err != nil {
			return nil, err
		}
		graph, list := builds.Parse(file, data)
		if list.Failed() {
			return nil, c.unreadable(file, list.Err())
		}
		d.graph, d.digest = graph, builds.Digest(data)
	}
	return d, nil
}

// source compares the assembly with its graph and lock.
func (c *claims) source(d *sources) {
	license := d.assembly.License
	if d.lock != nil {
		var all []string
		for _, m := range d.lock.Modules {
			all = append(all, m.License)
		}
		license = assemble.JoinLicenses(all)
	}
	if g := d.graph; g != nil {
		license = cmp.Or(g.License, license)
		c.compare("name of the assembly", d.assembly.Name, g.Name)
		c.compare("version of the assembly", d.assembly.Version, g.Version)
		c.compare("description of the assembly", d.assembly.Description, g.Description)
		c.compare("abi of the assembly", string(d.assembly.ABI), string(g.ABI))
		if d.lock != nil {
			c.compare("graph of the lock", d.lock.Graph.Digest, d.digest)
		}
	}
	c.compare("license of the assembly", d.assembly.License, license)
}

// component compares a part of the assembly with its module.yaml and its pin.
func (c *claims) component(d *sources, p builds.Part) {
	m := d.manifests[p.Name]
	c.compare("name of "+p.ID(), p.Name, m.Name)
	c.compare("version of "+p.ID(), p.Version, m.Version)
	c.compare("type of "+p.ID(), string(p.Type), string(m.Type))
	c.compare("modality of "+p.ID(), string(p.Modality), string(m.Modality))
	if d.lock == nil {
		return
	}
	i := slices.IndexFunc(d.lock.Modules, func(l builds.Locked) bool { return l.Name == p.Name })
	if i < 0 {
		c.differs("part", p.ID(), "a module of the lock")
		return
	}
	pin := d.lock.Modules[i]
	c.compare("version of "+p.ID(), p.Version, pin.Version)
	c.compare("digest of "+p.ID(), p.Digest, pin.Digest)
	c.compare("license of "+p.ID()+" in the lock", pin.License, m.License)
	for _, f := range pin.Files {
		path := p.Name + "/" + f.Path
		if l, ok := c.reader.layers[path]; ok && !exported(p, path) {
			c.compare("digest of "+path, l.Descriptor.Digest.String(), f.Digest)
		}
	}
}

// exported reports whether an exporter may have written the file: weights.
func exported(p builds.Part, path string) bool {
	for format, paths := range p.Files {
		if slices.Contains(paths, path) && !abi.Format(format).Code() {
			return true
		}
	}
	return false
}

// permissions compares the requests of the skills, and the permissions of the sandbox,
// with the modules.
func (c *claims) permissions(d *sources) {
	list := func(a *modules.Allow) string {
		if a == nil {
			return "any"
		}
		return a.String()
	}
	for _, s := range d.assembly.Skills {
		var asks *modules.Allow
		if r := d.manifests[s.Name].Runtime; r != nil {
			asks = r.Allow
		}
		if s.Allow != nil { // without, it has none, whatever it asks for
			c.compare("permissions of "+s.ID(), list(s.Allow), list(asks))
		}
	}
	if s := d.assembly.Sandbox; s != nil {
		m := d.manifests[s.Name]
		c.compare("permissions of "+s.ID(), list(s.Allow), list(m.Allow))
		c.compare("engines of "+s.ID(), cmp.Or(strings.Join(s.Engines, ", "), "any"), cmp.Or(strings.Join(m.Engines, ", "), "any"))
	}
}

// files compares the annotations of each file with the part that it belongs to.
func (c *claims) files(a *artifact.Artifact, d *sources) {
	parts, listed := map[string]builds.Part{}, map[string]map[string]string{}
	for _, p := range d.assembly.Parts() {
		parts[p.Name] = p
		for format, paths := range p.Files {
			for _, path := range paths {
				notes := map[string]string{
					abi.AnnotationComponent: p.Name, abi.AnnotationRole: string(p.Type), abi.AnnotationVersion: p.Version,
					abi.AnnotationFormat: format, abi.AnnotationBackend: p.Backend, abi.AnnotationQuant: p.Quant,
				}
				listed[path] = notes
				if l, ok := c.reader.layers[path]; !ok {
					c.differs("files of "+p.ID(), "none", path)
				} else if len(p.Files) > 1 { // each format has its own precision
					notes[abi.AnnotationQuant] = l.Annotations[abi.AnnotationQuant]
				}
			}
		}
	}
	for _, l := range a.Layers {
		name, rest, _ := strings.Cut(l.Path, "/")
		p, ok := parts[name]
		switch {
		case listed[l.Path] != nil:
			c.layer(l, listed[l.Path])
		case ok:
			c.layer(l, modelpack.Layer(d.manifests[p.Name], rest).Annotations)
		case l.Path == bom.LicenseFile, l.Path == bom.NoticeFile:
			c.layer(l, assemble.LegalNotes())
		case l.Path == builds.AssemblyFile:
			c.layer(l, map[string]string{abi.AnnotationRole: abi.RoleAssembly, abi.AnnotationFormat: "json"})
		default:
			c.layer(l, map[string]string{abi.AnnotationRole: abi.RoleAssembly, abi.AnnotationFormat: "yaml"})
		}
	}
}
