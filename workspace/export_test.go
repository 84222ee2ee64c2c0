package workspace

// OnAdmitted sets a hook between verification and use.
func (w *Workspace) OnAdmitted(fn func()) { w.admitted = fn }
