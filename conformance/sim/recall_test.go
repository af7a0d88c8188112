package sim

import (
	"bytes"
	"context"
	"fmt"

	"manifold/xdr"
	"manifold/xdr/nfs4"
	"manifold/xdr/rpc"
)

const cbProgram = 0x40000000

// cbSlot is a slot of a session's back channel.
type cbSlot struct {
	session nfs4.SessionID
	slot    uint32
}

// cbAnswer is what the client answered last on a slot.
type cbAnswer struct {
	seq    uint32
	status nfs4.Status
	never  bool
	attrs  nfs4.Attrs // of CB_GETATTR, if status is OK
}

// ServeRPC answers callbacks: CB_COMPOUND with CB_SEQUENCE and a recall.
func (l *life) ServeRPC(ctx context.Context, _ *rpc.Conn, call *rpc.Call, out *rpc.Reply) {
	d := &call.Body
	var head nfs4.CBCompoundArgs
	head.DecodeXDR(d)
	var seq nfs4.CBSequenceArgs
	first := nfs4.CBOpNum(d.Uint32())
	seq.DecodeXDR(d)
	num := nfs4.CBOpNum(d.Uint32())
	var what callback
	switch num {
	case nfs4.CBLayoutRecall:
		what.layout.DecodeXDR(d)
	case nfs4.CBRecall:
		what.recall.DecodeXDR(d)
	case nfs4.CBGetattr:
		what.getattr.DecodeXDR(d)
	}
	if d.Err() != nil || first != nfs4.CBSequence || head.NumOps != 2 || call.Prog != cbProgram {
		l.w.fail("callback to %s makes no sense: %v, %v", l.name, first, d.Err())
		return
	}
	answer := l.sequence(&seq, num, &what)
	if answer.never {
		<-ctx.Done()
		return
	}
	writeAnswer(&out.Enc, &seq, num, &answer)
}

// callback is the arguments of one that the client knows.
type callback struct {
	layout  nfs4.CBLayoutRecallArgs
	recall  nfs4.CBRecallArgs
	getattr nfs4.CBGetattrArgs
}

// sequence answers a callback, once.
func (l *life) sequence(seq *nfs4.CBSequenceArgs, num nfs4.CBOpNum, what *callback) cbAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := cbSlot{seq.SessionID, seq.SlotID}
	last := l.answered[slot]
	switch {
	case last == nil:
		last = &cbAnswer{}
		l.answered[slot] = last
	case last.seq == seq.SequenceID:
		return *last
	case last.seq > seq.SequenceID:
		return cbAnswer{never: true} // an old one that took long
	}
	*last = cbAnswer{seq: seq.SequenceID, status: nfs4.ErrNotSupp}
	switch num {
	case nfs4.CBLayoutRecall:
		last.status, last.never = l.recalled(&what.layout)
	case nfs4.CBRecall:
		last.status, last.never = l.delegRecalled(&what.recall)
	case nfs4.CBGetattr:
		l.asked(&what.getattr, last)
	}
	return *last
}

// recalled decides what to do about a recall. l.mu is held.
func (l *life) recalled(a *nfs4.CBLayoutRecallArgs) (s nfs4.Status, never bool) {
	if a.Recall.Kind != nfs4.LayoutReturnFile {
		return l.recalledAll(a.Recall.Kind), false
	}
	var f *openFile
	for _, o := range l.files {
		switch {
		case !bytes.Equal(o.fh, a.Recall.FH):
		case o.layout != nil:
			f = o
		default:
			o.grown = 0 // too late to tell
		}
	}
	x := l.cbRnd.IntN(100)
	switch {
	case l.asking != nil && bytes.Equal(l.asking.fh, a.Recall.FH):
		s = nfs4.ErrDelay // what is recalled may be on its way here
	case f == nil:
		s = nfs4.ErrNoMatchingLayout
	case f.layout.id.Other != a.Recall.Stateid.Other:
		s = nfs4.ErrNoMatchingLayout // an earlier layout
	case l.deaf:
		s, never = nfs4.OK, x < 50
	case x < 15:
		s = nfs4.ErrDelay
	case x < 25:
		s, never = nfs4.ErrDelay, true
	case x < 30:
		s = nfs4.OK // and nothing happens
	case x < 60 && !f.using && f.grown == 0:
		l.w.judge.release(f.layout.hold)
		f.layout, s = nil, nfs4.ErrNoMatchingLayout
	default:
		f.recalled, s = true, nfs4.OK
		f.layout.id.Seqid = max(f.layout.id.Seqid, a.Recall.Stateid.Seqid)
	}
	if f != nil {
		l.w.judge.count(fmt.Sprintf("recall, %v", s))
	}
	l.log("is asked for a layout, %v: answers %v, or never: %t", a.Recall.Stateid, s, never)
	return s, never
}

// recalledAll decides what to do about a recall of all layouts. l.mu is held.
func (l *life) recalledAll(kind uint32) nfs4.Status {
	l.w.judge.count("recall of all")
	l.log("is asked for all layouts")
	if l.asking != nil {
		return nfs4.ErrDelay
	}
	for _, f := range l.files {
		if f.layout != nil {
			l.bulk = kind
			return nfs4.OK
		}
	}
	return nfs4.ErrNoMatchingLayout
}

// serveRecalls gives back what was promised.
func (l *life) serveRecalls() error {
	l.mu.Lock()
	bulk := l.bulk
	l.bulk = 0
	l.mu.Unlock()
	if bulk != 0 {
		if err := l.returnAll(bulk); err != nil {
			return err
		}
	}
	for _, f := range l.openFiles() {
		l.mu.Lock()
		due := f.recalled
		l.mu.Unlock()
		if !due {
			continue
		}
		l.w.judge.count("recall, returned")
		l.mu.Lock()
		f.recalled = false // flush goes on with it
		l.mu.Unlock()
		if err := f.returnLayout(); err != nil {
			return err
		}
	}
	for _, d := range l.allDelegs() {
		l.mu.Lock()
		due := d.recalled
		l.mu.Unlock()
		if !due {
			continue
		}
		if err := l.giveBack(d); err != nil {
			return err
		}
	}
	return nil
}

// writeAnswer encodes CB_COMPOUND's result.
func writeAnswer(e *xdr.Encoder, seq *nfs4.CBSequenceArgs, num nfs4.CBOpNum, a *cbAnswer) {
	s := a.status
	head := nfs4.CBCompoundRes{Status: s, NumRes: 2}
	head.EncodeXDR(e)
	e.Uint32(uint32(nfs4.CBSequence))
	e.Uint32(uint32(nfs4.OK))
	res := nfs4.CBSequenceRes{SessionID: seq.SessionID, SequenceID: seq.SequenceID, SlotID: seq.SlotID, HighestSlotID: 3, TargetHighestSlotID: 3}
	res.EncodeXDR(e)
	e.Uint32(uint32(num))
	e.Uint32(uint32(s))
	if num == nfs4.CBGetattr && s == nfs4.OK {
		r := nfs4.CBGetattrRes{ObjAttributes: a.attrs}
		r.EncodeXDR(e)
	}
}
