"""Preflight on real clusters: each check fails for its own reason, names the fix, and hides no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tao_run.errors import BackendRejected, BackendUnreachable, PermissionRefused
from tao_run.jobs.model import Check
from tao_run.jobs.request import to_record
from tests.platforms.slurm.conftest import Site


def checks(site: Site, **more: Any) -> dict[str, Check]:
    environ = more.pop("environ", {})
    return {check.id: check for check in site.adapter(**environ).check_access(site.request(**more))}


def failed(site: Site, **more: Any) -> dict[str, Check]:
    return {name: check for name, check in checks(site, **more).items() if check.status == "failed"}


def test_everything_is_fine(site: Site) -> None:
    options = {"partition": "batch", "account": "research", "qos": "limited", "time": "1h", "gpu_type": "h100"}
    found = checks(site, gpus=4, nodes=3, options={**options, "container_mounts": "/home,/tmp:/x"})
    assert {check.status for check in found.values()} == {"ok"}, found
    assert {"slurm.host.login-a", "slurm.host.login-b", "slurm.path./home", "slurm.base"} <= set(found)


@pytest.mark.parametrize(
    ("check", "words", "more"),
    [
        ("slurm.partition", "no partition nowhere", {"options": {"partition": "nowhere"}}),
        ("slurm.partition", "down is down", {"options": {"partition": "down"}}),
        ("slurm.time", "10m asked for, partition short allows 5m", {"options": {"partition": "short", "time": "10"}}),
        ("slurm.gpus", "2 node(s) with 4 a100 GPUs", {"gpus": 4, "nodes": 2, "options": {"gpu_type": "a100"}}),
        ("slurm.gpus", "9 GPUs asked for, 0 such", {"gpus": 9}),
        ("slurm.account", "account nobody", {"options": {"account": "nobody"}}),
        ("slurm.account", "QOS limited", {"options": {"account": "blocked", "qos": "limited"}}),
        ("slurm.path./no/such", "not on the cluster", {"options": {"container_mounts": "/no/such:/x"}}),
        ("slurm.path./no/image.sqsh", "not on the cluster", {"image": "/no/image.sqsh"}),
        ("slurm.base", "Permission denied", {"environ": {"SLURM_BASE_RESULTS_DIR": "/root-only"}}),
    ],
)
def test_what_does_not_fit_is_told_with_its_fix(site: Site, check: str, words: str, more: dict[str, Any]) -> None:
    found = failed(site, **more)
    assert list(found) == [check]
    assert words in found[check].detail
    assert found[check].fix


def test_all_faults_are_told_at_once(site: Site) -> None:
    options = {"partition": "short", "time": "2h", "account": "nobody", "container_mounts": "/no/such"}
    found = failed(site, gpus=9, options=options)
    assert set(found) == {"slurm.time", "slurm.gpus", "slurm.account", "slurm.path./no/such"}


def test_one_login_host_down_is_told_and_the_other_does_the_rest(site: Site) -> None:
    with site.cluster.stopped("sshd-a"):
        found = checks(site)
    assert found["slurm.host.login-a"].status == "failed"
    assert "refused" in found["slurm.host.login-a"].detail
    assert found["slurm.host.login-b"].status == found["slurm.partition"].status == "ok"


def test_nodes_that_are_down_do_not_count(site: Site) -> None:
    site.cluster.run("scontrol", "update", "NodeName=node4", "State=DRAIN", "Reason=test")
    try:
        found = failed(site, gpus=4, nodes=4)
    finally:
        site.cluster.resume_nodes()
    assert "3 such node(s) are up now" in found["slurm.gpus"].detail


def test_a_cluster_without_pyxis_and_accounting(plain: Site) -> None:
    found = checks(plain)
    assert found["slurm.container"].status == "failed"
    assert found["slurm.container"].fix == "-o container=none"
    assert found["slurm.account"].status == "skipped"
    assert checks(plain, options={"container": "none"})["slurm.container"].status == "ok"


def test_resources_are_partitions_with_gpus_and_accounts(site: Site) -> None:
    partitions, accounts = site.adapter().resources()
    rows = [dict(zip(partitions.columns, row, strict=True)) for row in partitions.rows]
    assert {"batch", "short", "down"} <= {row["partition"] for row in rows}
    batch = next(row for row in rows if row["partition"] == "batch" and row["gpu_type"] == "h100")
    assert (batch["nodes"], batch["gpus_per_node"], batch["available"]) == ("3", "4", "up")
    assert accounts.rows == (("blocked", "any", "normal"), ("research", "any", "limited, normal, onejob"))


def test_resources_without_accounting_are_partitions_alone(plain: Site) -> None:
    assert [table.title for table in plain.adapter().resources()] == ["partitions"]


def test_paths_of_the_cluster(site: Site, scratch: Path) -> None:
    top = scratch / "with space"
    (top / "sub").mkdir(parents=True)
    for name in ("a b", "it's", "new\nline", "ünï"):
        (top / name).write_text("x")
    adapter = site.adapter()
    assert adapter.check_path(f"lustre://{top}/sub")
    assert adapter.check_path(f"{top}/a b")
    assert not adapter.check_path(f"{top}/a")
    assert adapter.list_path(str(top)) == sorted(
        [f"{top}/a b", f"{top}/it's", f"{top}/new\nline", f"{top}/sub/", f"{top}/ünï"]
    )
    assert adapter.list_path(f"{top}/a b") == [f"{top}/a b"]
    assert adapter.list_path(f"{top}/none") == []
    assert adapter.check_path("~/.bashrc")


def test_a_path_that_may_not_be_looked_at_is_not_absent(site: Site, scratch: Path) -> None:
    (scratch / "private").mkdir(mode=0o700)  # of the administrator
    with pytest.raises(PermissionRefused):
        site.adapter().check_path(f"{scratch}/private/x")
    with pytest.raises(PermissionRefused):
        site.adapter().list_path(f"{scratch}/private")


def test_on_a_login_node_no_ssh_is_needed(
    plain: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(plain.cluster.root / "etc" / "slurm.conf"))
    monkeypatch.setenv("PLANTED_TOKEN", "do-not-inherit")
    plain.base = tmp_path_factory.mktemp("direct")
    plain.more.update(SLURM_HOSTNAME="", SLURM_USER="")
    before = plain.cluster.sessions()
    command = 'echo "token=$PLANTED_TOKEN"; exit 3'
    job = plain.submit(command, options={"container": "none"})
    assert job.account == f"root@direct:{plain.base}"
    assert plain.ended(job).exit_code == 3
    assert plain.texts(job, follow=True) == ["token="]
    assert checks(plain, options={"container": "none"})["slurm.host"].status == "ok"
    assert plain.cluster.sessions() == before


def test_a_path_is_proved_on_the_cluster_and_in_a_mount(site: Site, scratch: Path) -> None:
    adapter, request = site.adapter(), site.request(options={"container_mounts": f"{scratch}:/data"})
    inside = site.request(options={"container_mounts": str(scratch)})
    on_nodes = site.request(options={"container": "none"})
    assert adapter.prove_path(str(scratch), inside) is not None
    found = {
        name: adapter.prove_path(path, asked)
        for name, path, asked in (
            ("mounted", str(scratch), inside),
            ("mounted elsewhere", str(scratch), request),
            ("absent", f"{scratch}/none", inside),
            ("no container", str(scratch), on_nodes),
        )
    }
    assert {name: check.status for name, check in found.items() if check} == {
        "mounted": "ok",
        "mounted elsewhere": "failed",
        "absent": "failed",
        "no container": "ok",
    }
    assert found["mounted elsewhere"] is not None
    assert f"container_mounts={scratch}" in found["mounted elsewhere"].fix


def test_slurm_itself_checks_a_script_that_is_not_submitted(site: Site) -> None:
    adapter = site.adapter()
    launch = adapter.prepare(site.build("true", gpus=4, options={"gpu_type": "a100"}))
    assert "node4" in " ".join(adapter.validate(launch))
    with pytest.raises(BackendRejected):
        adapter.validate(adapter.prepare(site.build("true", gpus=5)))
    assert site.cluster.run("squeue", "-h", "-n", launch.job.name).strip() == ""


def test_results_are_listed_and_copied_whole(site: Site, scratch: Path, tmp_path: Path) -> None:
    command = 'cd "$TAO_RESULTS_DIR" && mkdir -p "a b" && echo one > "a b/ü 1.txt" && head -c 3000000 /dev/zero > big'
    job = site.submit(command, results=str(scratch))
    site.ended(job)
    adapter = site.adapter()
    listed = list(adapter.list_results(job))
    assert listed[:2] == [("a b/ü 1.txt", 4), ("big", 3_000_000)]
    assert adapter.download_results(job, tmp_path / "here") == len(listed)
    assert (tmp_path / "here" / "a b" / "ü 1.txt").read_text() == "one\n"
    assert (tmp_path / "here" / "big").stat().st_size == 3_000_000
    assert not list((tmp_path / "here").rglob("*.part"))


def test_a_copy_that_breaks_off_is_told(site: Site, scratch: Path, tmp_path: Path) -> None:
    gone = replace(site.build("true"), results_dir=str(scratch / "none"))
    assert list(site.adapter().list_results(gone)) == []
    with pytest.raises(BackendUnreachable, match="broke off after 0 files"):
        site.adapter().download_results(gone, tmp_path)


def test_nodes_at_fault_are_excluded_from_a_retry(site: Site) -> None:
    request = site.adapter().avoid_nodes(site.request(options={"exclude": "node9"}), ["node1", "node2"])
    job = replace(site.build("true"), spec=to_record(request))
    assert "#SBATCH --exclude=node9,node1,node2\n" in site.adapter().prepare(job).extra["job.sbatch"]
