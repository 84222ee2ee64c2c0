package device

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/protocol"
)

// marker is the file that marks a folder as mm's. The first push creates it.
const marker = ".mm-folder"

// The names of mm's files below its folder.
var (
	blobName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
	partName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}(-[0-9a-f]{16})?(\.seg)?$`) })
	hostName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{16}$`) })
	runName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{16,64}$`) })
	probeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\.mm-([0-9a-f]{16,64}|folder)$`) })
)

// folder requires an absolute path: links in the folder contain it, and programs may start
// anywhere.
func (d *Device) folder() error {
	if dir := d.at(); !path.IsAbs(dir) || dir == "/" {
		return d.fault(diag.DeviceFolder, fmt.Sprintf("not an absolute folder: %q", d.Folder))
	}
	return nil
}

// claim returns the command that creates and marks the folder.
func (d *Device) claim() string {
	return protocol.Command("mkdir", "-p", d.at()) + " && " + protocol.Command("echo", "mm device") + " > " + protocol.Quote(d.at(marker))
}

// Remove removes everything that mm has pushed, and the folder if nothing else is in it. It
// refuses a folder that mm has never pushed to.
func (d *Device) Remove(ctx context.Context) error {
	if err := d.folder(); err != nil {
		return err
	}
	info, err := d.stat(ctx, d.at())
	if err != nil || !info.Exists {
		return err
	}
	if err := d.marked(ctx); err != nil {
		return err
	}
	for _, kind := range []struct {
		dir  string
		name *regexp.Regexp
	}{{"runs", runName()}, {"part", partName()}, {"sha256", blobName()}, {"", probeName()}} {
		if err := d.clear(ctx, kind.dir, kind.name); err != nil {
			return err
		}
	}
	return nil
}

// marked checks that mm pushed to the folder: it has the marker, or the layout of older
// folders without one.
func (d *Device) marked(ctx context.Context) error {
	mark, err := d.stat(ctx, d.at(marker))
	if err != nil || mark.Exists {
		return err
	}
	for dir, name := range map[string]*regexp.Regexp{"sha256": blobName(), "part": partName()} {
		names, there, err := d.names(ctx, dir)
		if err != nil {
			return err
		}
		if !there || slices.ContainsFunc(names, func(n string) bool { return !name.MatchString(n) }) {
			return d.fault(diag.DeviceFolder, fmt.Sprintf("%s has neither %s nor the folders of a push; nothing removed", d.at(), marker))
		}
	}
	return nil
}

// names lists a folder below mm's folder.
func (d *Device) names(ctx context.Context, dir string) (names []string, ok bool, err error) {
	info, err := d.stat(ctx, d.at(dir))
	if err != nil || !info.Dir {
		return nil, false, err
	}
	out, err := d.exec(ctx, protocol.Command("ls", "-1A", d.at(dir)))
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' }), true, err
}

// clear removes the entries with mm's names from a folder, and then the folder if it is
// empty.
func (d *Device) clear(ctx context.Context, dir string, name *regexp.Regexp) error {
	names, ok, err := d.names(ctx, dir)
	if err != nil || !ok {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !name.MatchString(n) })
	for some := range slices.Chunk(names, 100) {
		if _, err := d.exec(ctx, protocol.Command("cd", d.at(dir))+" && "+protocol.Command(append([]string{"rm", "-rf"}, some...)...)); err != nil {
			return err
		}
	}
	_, err = d.long(ctx, 0, protocol.Command("rmdir", d.at(dir)))
	return err
}
