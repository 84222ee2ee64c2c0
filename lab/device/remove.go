package device

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/device/lane"
)

// marker is the file that says that a folder is mm's. The first push makes it.
const marker = ".mm-folder"

// The names that mm gives below its folder.
var (
	blobName  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	partName  = regexp.MustCompile(`^[0-9a-f]{64}(-[0-9a-f]{16})?(\.seg)?$`)
	hostName  = regexp.MustCompile(`^[0-9a-f]{16}$`)
	runName   = regexp.MustCompile(`^[0-9a-f]{16,64}$`)
	probeName = regexp.MustCompile(`^\.mm-([0-9a-f]{16,64}|folder)$`)
)

// folder refuses what is no folder of mm's own: links in it are made by its
// path, from wherever a program is started.
func (d *Device) folder() error {
	if dir := d.at(); !path.IsAbs(dir) || dir == "/" {
		return d.fault(diag.DeviceFolder, fmt.Sprintf("%q is no path from / on to a folder", d.Folder))
	}
	return nil
}

// claim is the command that makes the folder, and says that it is mm's.
func (d *Device) claim() string {
	return lane.Command("mkdir", "-p", d.at()) + " && " + lane.Command("echo", "mm device") + " > " + lane.Quote(d.at(marker))
}

// Remove takes away all that mm has pushed, and the folder with it where nothing
// else lies in it. A folder that mm has never pushed to is refused.
func (d *Device) Remove(ctx context.Context) error {
	if err := d.folder(); err != nil {
		return err
	}
	info, err := d.stat(ctx, d.at())
	if err != nil || !info.Exists {
		return err
	}
	if err := d.own(ctx); err != nil {
		return err
	}
	for _, kind := range []struct {
		dir  string
		name *regexp.Regexp
	}{{"runs", runName}, {"part", partName}, {"sha256", blobName}, {"", probeName}} {
		if err := d.clear(ctx, kind.dir, kind.name); err != nil {
			return err
		}
	}
	return nil
}

// own reports whether mm pushed to the folder: it has the marker, or is laid out
// as folders were that had none.
func (d *Device) own(ctx context.Context) error {
	mark, err := d.stat(ctx, d.at(marker))
	if err != nil || mark.Exists {
		return err
	}
	for dir, name := range map[string]*regexp.Regexp{"sha256": blobName, "part": partName} {
		names, there, err := d.names(ctx, dir)
		if err != nil {
			return err
		}
		if !there || slices.ContainsFunc(names, func(n string) bool { return !name.MatchString(n) }) {
			return d.fault(diag.DeviceFolder, fmt.Sprintf("%s has no %s, nor the folders of a push: nothing was removed", d.at(), marker))
		}
	}
	return nil
}

// names lists a folder below mm's.
func (d *Device) names(ctx context.Context, dir string) (names []string, there bool, err error) {
	info, err := d.stat(ctx, d.at(dir))
	if err != nil || !info.Dir {
		return nil, false, err
	}
	out, err := d.exec(ctx, lane.Command("ls", "-1A", d.at(dir)))
	return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' }), true, err
}

// clear removes what has a name of mm's in a folder below its own, and then the
// folder, which stays where anything is left in it.
func (d *Device) clear(ctx context.Context, dir string, name *regexp.Regexp) error {
	names, there, err := d.names(ctx, dir)
	if err != nil || !there {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !name.MatchString(n) })
	for some := range slices.Chunk(names, 100) {
		if _, err := d.exec(ctx, lane.Command("cd", d.at(dir))+" && "+lane.Command(append([]string{"rm", "-rf"}, some...)...)); err != nil {
			return err
		}
	}
	_, err = d.long(ctx, 0, lane.Command("rmdir", d.at(dir)))
	return err
}
