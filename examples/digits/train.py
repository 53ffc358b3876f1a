"""A small classifier of handwritten digits; every number repeats, resumed or not."""

import torch
from sklearn.datasets import load_digits
from torch import nn

from hpo_ops.sdk import trial

torch.set_num_threads(max(int(trial.units), 1))
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(trial.seed)
params = {"lr": 1e-3, "width": 64, "optimizer": "adam", "momentum": 0.9, "dropout": 0.0}
params |= trial.params

digits = load_digits()
x = torch.tensor(digits.data / 16, dtype=torch.float32).reshape(-1, 1, 8, 8).to(device)
y = torch.tensor(digits.target).to(device)
order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
train, valid = order[360:], order[:360]
if trial.folds:
    train, valid = (torch.tensor(part) for part in trial.split(len(y)))

width = int(params["width"])
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    nn.Linear(256, width), nn.ReLU(), nn.Dropout(params["dropout"]), nn.Linear(width, 10),
).to(device)  # fmt: skip
if params["optimizer"] == "sgd":
    optimizer = torch.optim.SGD(model.parameters(), params["lr"], momentum=params["momentum"])
else:
    optimizer = torch.optim.Adam(model.parameters(), params["lr"])


def save(folder):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, folder / "state.pt")


def load(folder):
    state = torch.load(folder / "state.pt", map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])


trial.checkpointed(save=save, load=load)
for step in trial.steps(total=20):
    torch.manual_seed(trial.seed + step)  # the same draws at this step after a resume
    model.train()
    for batch in train[torch.randperm(len(train))].split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x[valid]).argmax(1) == y[valid]).float().mean()
    trial.report(step, accuracy=accuracy, loss=loss.item())
