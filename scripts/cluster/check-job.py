"""check-job.py FILE SHARDS ARGS: what the schema of a Job does not say, and a divided run needs."""

import sys

import yaml


def main():
    path, shards, arguments = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    with open(path) as file:
        (job,) = yaml.safe_load_all(file)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    (shell, flag, command) = container["command"]
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert pod["restartPolicy"] == "Never", "a policy for failed pods needs it"
    assert container["image"]
    assert (shell, flag) == ("sh", "-c") and "exec prepose" in command
    assert environment["PREPOSE_ARGS"] == arguments, environment["PREPOSE_ARGS"]

    rules = spec["podFailurePolicy"]["rules"]
    first, second = rules
    assert first["action"] == "Ignore" and first["onPodConditions"][0]["type"] == "DisruptionTarget"
    codes = second["onExitCodes"]
    assert codes["containerName"] == container["name"], codes
    assert codes["operator"] == "In" and codes["values"] == [2], codes

    if container["name"] == "worker":
        assert spec["completionMode"] == "Indexed", spec["completionMode"]
        assert spec["completions"] == shards == int(environment["PREPOSE_SHARDS"])
        assert 1 <= spec["parallelism"] <= shards
        assert second["action"] == "FailIndex" and spec["backoffLimitPerIndex"] >= 1
        assert spec["podReplacementPolicy"] == "Failed"
        assert '--shards "$PREPOSE_SHARDS"' in command and '--out "$PREPOSE_RUN"' in command
    else:
        assert "completionMode" not in spec and second["action"] == "FailJob"
        assert command == 'exec prepose merge "$PREPOSE_RUN" --out "$PREPOSE_OUT"', command

    mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
    volumes = [volume["name"] for volume in pod.get("volumes", [])]
    assert sorted(mounts) == sorted(volumes), (mounts, volumes)
    run = environment["PREPOSE_RUN"]
    assert "://" in run or run.startswith(mounts["runs"] + "/"), run
    for amounts in container["resources"].values():
        assert all(isinstance(amount, str) for amount in amounts.values()), amounts


main()
