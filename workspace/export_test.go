package workspace

import "mm-abi.org/mm/workspace/home"

// OnAdmitted sets a hook between verification and use.
func (w *Workspace) OnAdmitted(fn func()) { w.admitted = fn }

// PlainHTTP exports plainHTTP.
func (w *Workspace) PlainHTTP(set home.Settings) []string { return w.plainHTTP(set) }

// MaxDate exports maxDate.
const MaxDate = maxDate
