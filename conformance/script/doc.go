// Package script tells stories of a whole cluster: a metadata server, data
// servers and NFS clients in one process, over TCP. It is all tests; the stories
// are text files in testdata, and so is what the cluster did in each.
//
// Its nouns: a story is one file of testdata; a scene is a block of it, whose
// lines are commands and whose answers stand below the dashes; an actor is a
// client by its name, as in "a: write /f len=1MiB". What differs from run to run
// has names of its own: o1:2 is the second seqid of the first open stateid that
// the story saw, k1 one of a lock and l1 one of a layout, d1 a device, ds1 a
// data server.
//
// "go test ./conformance/script -rewrite" writes what happens into the files; the
// difference to what was there is what a reviewer reads. A command waits for what
// it needs; "wait until" waits for what has to come to pass by itself. Nothing
// sleeps for a time and hopes. With SCRIPT_LOG=1 in the environment the servers
// log, and each command is shown as it ends.
//
// # Commands
//
// Of the cluster:
//
//	cluster ds=4 lease=5s unit=64KiB width=0 [noproxy]
//	client a [uid=1000] [quiet]    mount; again after "a: die" as another incarnation;
//	                               a quiet one does not renew its lease
//	raw r slots=4                  a client whose every request the story spells out
//	kill ds2 / start ds2           stop it at once / start it and wait until it is up
//	stop mds / start mds / restart mds
//	join a                         the answer of a's command that ended in "&"
//	events                         recalls since the last "events", by client
//	on-recall b: return|forget|delay|ignore
//	objects /f                     the length of a file's object at each data server
//	ctl layout set /d unit=1MiB width=2, ctl layout get /d, ctl drain ds2,
//	ctl undrain ds2, ctl remove ds2, ctl status, ctl proxy, ctl grace
//	wait until COND                ds2 up|down, all up, grace over, a recalled,
//	                               objects /f are 0 0, clients=1, opens=0, locks=0,
//	                               layouts=0; mounts=1 does not count clients that
//	                               lost their lease and are being fenced
//
// Of a client, with "once" to see a first answer that says to ask again, "&" at
// the end to go on meanwhile, and "old" to go to the data servers by the layout
// that they refused last:
//
//	mkdir, remove, rename, stat, ls; create, open PATH r|w|rw [deny=r|w|rw] [trunc]; close [nocommit]
//	write PATH off= len= pattern= [via=mds], read PATH off= len= [via=mds]
//	layoutget PATH r|rw, layoutcommit PATH [size=], layoutreturn PATH, truncate PATH SIZE
//	lock, unlock, testlock PATH r|w off= len= [owner=]
//	reclaim    what it had open and locked, after the metadata server's restart
//	die, cut   drop all connections, or only that to the metadata server
//	leave      unmount
//
// Of a raw client:
//
//	send slot=0 seq=1 [nocache] mkdir|remove|lookup|truncate|nothing ...
//	again [slot= seq=]     the same once more; await: until it is not under way
//	reconnect
package script
